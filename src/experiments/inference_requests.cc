// Requests by order of submission. next_ splits them: those before it were submitted, those from it on were not.

#include "experiments/inference_requests.h"

#include <algorithm>
#include <limits>
#include <map>

namespace tangram::experiments {

InferenceRequests::InferenceRequests(const std::vector<formats::ClusterJob>& jobs) {
  std::map<std::string, int> numbers;
  for (const auto& job : jobs) {
    if (job.kind != formats::JobKind::inference) continue;
    const auto [place, is_new] = numbers.try_emplace(job.application, static_cast<int>(numbers.size()));
    if (is_new) applications_.push_back(job.application);
    requests_.push_back({job.name, place->second, job.submit_s, std::max(job.duration_s.value_or(0), 1.0)});
  }
  // Stable: requests of the same second stay in the order of the file.
  std::ranges::stable_sort(requests_, {}, &Request::submit_s);
}

double InferenceRequests::next_submit_s() const {
  return next_ < requests_.size() ? requests_[next_].submit_s : std::numeric_limits<double>::infinity();
}

const std::string& InferenceRequests::unfinished() const {
  // A pending request explains most: it found no GPU until the end.
  if (!pending_.empty()) return requests_[pending_.front()].name;
  if (next_ < requests_.size()) return requests_[next_].name;
  return std::ranges::max_element(requests_, {}, &Request::duration_s)->name;
}

}  // namespace tangram::experiments

#include "train/slice_shares.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

namespace tangram::train {
namespace {

// 0 up to kFirstQueue_s, 1 up to twice as much, 2 up to four times, ...
int queue_of_service(double attained_s) {
  int queue = 0;
  for (double end = kFirstQueue_s; attained_s >= end; end *= 2) ++queue;
  return queue;
}

class Sharing {
 public:
  Sharing(std::span<const SliceAsker> jobs, std::size_t slices)
      : jobs_(jobs), taken_(slices, false), shares_(jobs.size()) {}

  std::vector<std::vector<std::size_t>> run() {
    std::vector<std::size_t> order(jobs_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t j) {
      const SliceAsker& job = jobs_[j];
      return std::tuple(-job.priority, job.deadline_s, queue_of_service(job.attained_s), job.has.empty(),
                        job.attained_s, job.order);
    });
    for (const std::size_t j : order) give_minimum(j);
    while (give_one(order)) {
    }
    for (auto& share : shares_) std::ranges::sort(share);
    return std::move(shares_);
  }

 private:
  bool may_have(std::size_t job, std::size_t slice) const {
    return slice < jobs_[job].fits.size() && jobs_[job].fits[slice] && slice < taken_.size() && !taken_[slice];
  }

  // A slice that the job has, or else one that nobody has, or else any: those of others are left to them if possible.
  std::optional<std::size_t> next_for(std::size_t job) const {
    for (const std::size_t slice : jobs_[job].has) {
      if (may_have(job, slice)) return slice;
    }
    std::optional<std::size_t> other;
    for (std::size_t slice = 0; slice < taken_.size(); ++slice) {
      if (!may_have(job, slice)) continue;
      const bool anothers = std::ranges::any_of(
          jobs_, [&](const SliceAsker& asker) { return std::ranges::find(asker.has, slice) != asker.has.end(); });
      if (!anothers) return slice;
      if (!other) other = slice;
    }
    return other;
  }

  bool give(std::size_t job) {
    const auto slice = next_for(job);
    if (!slice) return false;
    taken_[*slice] = true;
    shares_[job].push_back(*slice);
    return true;
  }

  void give_minimum(std::size_t job) {
    while (shares_[job].size() < jobs_[job].min) {
      if (give(job)) continue;
      for (const std::size_t slice : shares_[job]) taken_[slice] = false;
      shares_[job].clear();
      return;
    }
  }

  // What one more slice adds to the speed of a job, in parts of it.
  double gain(std::size_t job) const {
    const std::size_t has = shares_[job].size();
    const auto& speeds = jobs_[job].speeds;
    if (has >= speeds.size() || speeds[has - 1] <= 0) return 1 / static_cast<double>(has);
    return speeds[has] / speeds[has - 1] - 1;
  }

  // To the job of the highest priority that gains most; the first in the order of those. Jobs that could not have their
  // minimum get nothing.
  bool give_one(const std::vector<std::size_t>& order) {
    std::vector<std::size_t> asking;
    for (const std::size_t j : order) {
      if (!shares_[j].empty() && shares_[j].size() < jobs_[j].max && gain(j) >= kGainMin) asking.push_back(j);
    }
    std::ranges::stable_sort(asking, {}, [&](std::size_t j) { return std::pair(-jobs_[j].priority, -gain(j)); });
    return std::ranges::any_of(asking, [&](std::size_t j) { return give(j); });
  }

  std::span<const SliceAsker> jobs_;
  std::vector<bool> taken_;
  std::vector<std::vector<std::size_t>> shares_;
};

}  // namespace

std::vector<std::vector<std::size_t>> share_slices(std::span<const SliceAsker> jobs, std::size_t slices) {
  return Sharing(jobs, slices).run();
}

}  // namespace tangram::train

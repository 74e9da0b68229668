// The queue of requests bound to one slice, cut into batches by `opens_batch`.
#include "sched/bound_queue.h"

#include <fmt/format.h>

namespace tangram::sched {

std::vector<Waiting*> BoundQueue::clear() {
  std::vector<Waiting*> all;
  while (!requests_.empty()) {
    all.push_back(requests_.pop_front());
    all.back()->bound_cost_ns = 0;
  }
  work_ns_ = 0;
  tail_ = {};
  return all;
}

// Recomputes the work and the last batch from the requests. An open batch must be the last one of the queue.
std::string BoundQueue::why_broken() const {
  std::int64_t sum_ns = 0;
  std::int32_t last_samples = 0;
  TimePoint last_deadline = kTimeNever;
  for (const Waiting* w = front(); w != nullptr; w = w->next) {
    sum_ns += w->bound_cost_ns;
    if (w->opens_batch) {
      last_samples = 0;
      last_deadline = kTimeNever;
    }
    last_samples += w->request.samples;
    last_deadline = std::min(last_deadline, w->request.deadline);
  }
  if (sum_ns != work_ns_)
    return fmt::format("the work of the queue is {} ns, its requests cost {} ns", work_ns_, sum_ns);
  if (empty()) return tail_.samples == 0 ? "" : "an empty queue has an open batch";
  if (!front()->opens_batch) return "the first request of the queue opens no batch";
  // No batch is open, so there is nothing to compare.
  if (tail_.samples == 0) return "";
  if (tail_.samples != last_samples || tail_.deadline != last_deadline) {
    return fmt::format("the open batch counts {} samples, its requests hold {}", tail_.samples, last_samples);
  }
  return "";
}

}  // namespace tangram::sched

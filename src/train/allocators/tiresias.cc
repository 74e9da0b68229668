// Tiresias (NSDI'19): jobs of fixed size, served in order of arrival from two queues.
//
// A job that has received 16 GPU-hours leaves the first queue for the second and does not come back. A job that does
// not fit is passed over, and one that runs may be stopped for those before it.

#include <algorithm>
#include <map>

#include "train/allocator.h"

namespace tangram::train {
namespace {

constexpr double kDemotedAfter_s = 16 * 3600;  // GPU-seconds.

class Tiresias final : public Allocator {
 public:
  bool keeps_batches() const override { return true; }

  std::vector<Allocation> allocate(const RoundView& view) override {
    const auto order = order_of(view);
    std::vector<Allocation> allocations(view.jobs.size());
    std::vector<std::size_t> starting;
    int left = view.gpus();
    for (const std::size_t i : order) {
      const JobView& job = view.jobs[i];
      // All or nothing: the job has a fixed size.
      if (job.replicas_asked > left) continue;
      left -= job.replicas_asked;
      // A running job keeps its GPUs; a move would cost it a restart for nothing.
      if (gpus_of(*job.current) == job.replicas_asked) {
        allocations[i] = *job.current;
      } else {
        starting.push_back(i);
      }
    }
    place(view, starting, allocations);
    return allocations;
  }

 private:
  // The first queue, then the second, each by submission.
  static std::vector<std::size_t> order_of(const RoundView& view) {
    std::vector<std::size_t> order(view.jobs.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto key = [&](std::size_t i) {
      const JobView& job = view.jobs[i];
      return std::tuple(job.attained_s >= kDemotedAfter_s, job.submit_s, job.id);
    };
    std::ranges::sort(order, {}, key);
    return order;
  }

  // On the emptiest nodes, as the published simulator does.
  static void place(const RoundView& view, const std::vector<std::size_t>& starting,
                    std::vector<Allocation>& allocations) {
    auto free = free_beside(view.gpus_free, allocations);
    for (const std::size_t i : starting) {
      for (int wanted = view.jobs[i].replicas_asked; wanted > 0;) {
        const auto node = std::ranges::max_element(free);
        const int taken = std::min(wanted, *node);
        add_gpus(allocations[i], static_cast<int>(node - free.begin()), taken);
        *node -= taken;
        wanted -= taken;
      }
    }
  }
};

}  // namespace

std::unique_ptr<Allocator> make_tiresias(const AllocatorOptions&) { return std::make_unique<Tiresias>(); }

}  // namespace tangram::train

// Optimus (EuroSys'18), told the truth: one GPU for each job, then each next GPU where it takes most off the time left.

#include <algorithm>

#include "train/true_runtime.h"

namespace tangram::train {
namespace {

class Optimus final : public Allocator {
 public:
  bool keeps_batches() const override { return true; }

  std::vector<Allocation> allocate(const RoundView& view) override {
    std::vector<int> counts(view.jobs.size(), 0);
    std::vector<double> gains(view.jobs.size(), 0);
    int left = view.gpus();
    // One GPU each first, so that a long job cannot take everything from jobs that have not started.
    for (std::size_t i = 0; i < counts.size() && left > 0; ++i) {
      counts[i] = 1;
      --left;
    }
    for (std::size_t i = 0; i < counts.size(); ++i) gains[i] = gain_of(view, i, counts[i]);
    // Greedy by marginal gain. Only the winner's gain changes, so a step costs one evaluation and a scan.
    while (left > 0 && !gains.empty()) {
      const auto best = static_cast<std::size_t>(std::ranges::max_element(gains) - gains.begin());
      if (gains[best] <= 0) break;
      ++counts[best];
      --left;
      gains[best] = gain_of(view, best, counts[best]);
    }
    return place_counts(view, counts);
  }

 private:
  // Seconds saved by one more GPU; 0 if the job has none yet or cannot use more.
  static double gain_of(const RoundView& view, std::size_t i, int replicas) {
    const JobView& job = view.jobs[i];
    if (replicas == 0 || replicas + 1 > fixed_batch_replicas_max(job)) return 0;
    return (true_step_s(job, replicas, view.gpus_per_node) - true_step_s(job, replicas + 1, view.gpus_per_node)) *
           true_iterations_left(job);
  }
};

}  // namespace

std::unique_ptr<Allocator> make_optimus(const AllocatorOptions&) { return std::make_unique<Optimus>(); }

}  // namespace tangram::train

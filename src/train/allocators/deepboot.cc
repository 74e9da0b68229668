// DeepBoot's ATS-T (TPDS 2023): the sum of speed-ups, each priced for a change of its number, by a group knapsack.

#include <algorithm>

#include "train/knapsack_allocator.h"

namespace tangram::train {
namespace {

constexpr double kRestart_s = 10;  // What it prices a change with, whatever the change really costs.

class DeepBoot final : public KnapsackAllocator {
 private:
  std::vector<double> values_of(const JobView& job, const RoundView& view, int gpus) const override {
    const Speedup speedup(*job.model, std::max(gpus, 1), static_cast<int>(view.jobs.size()));
    // The same for every change of the number, whether the job grows or shrinks.
    const double factor = restart_factor(job, kRestart_s);
    const int now = gpus_of(*job.current);
    std::vector<double> values;
    for (int w = 1; w <= std::min(job.replicas_max, gpus); ++w) {
      const int nodes = (w + view.gpus_per_node - 1) / view.gpus_per_node;
      // Packed on as few nodes as possible, which is how place_counts would place it on an empty cluster.
      values.push_back(speedup(nodes, w) * (w == now ? 1 : factor));
    }
    return values;
  }
};

}  // namespace

std::unique_ptr<Allocator> make_deepboot(const AllocatorOptions&) { return std::make_unique<DeepBoot>(); }

}  // namespace tangram::train

// Sia (SOSP'23): goodput of a few sizes for each job, chosen together.
//
// A job may have a power of two of GPUs within a node, or whole nodes. Goodput is taken relative to the job's smallest
// size, changes are priced by the restart, and the power mean with exponent -1/2 keeps it fair. With one kind of GPU
// the published integer program is a group knapsack over these values, which is solved exactly.

#include <algorithm>
#include <cmath>

#include "train/knapsack_allocator.h"

namespace tangram::train {
namespace {

constexpr double kUnallocated = 1.1;  // The price of leaving a job out, in its own unit.
constexpr double kChange = 0.01;      // The price of any change.

class Sia final : public KnapsackAllocator {
 private:
  static bool is_size(int w, int gpus_per_node) {
    if (w <= gpus_per_node) return (w & (w - 1)) == 0;
    return w % gpus_per_node == 0;
  }

  // A power mean with a negative exponent is largest where the sum of powers is smallest, so a size is worth what it
  // takes off the power of having nothing.
  std::vector<double> values_of(const JobView& job, const RoundView& view, int gpus) const override {
    const Speedup speedup(*job.model, std::max(gpus, 1), static_cast<int>(view.jobs.size()));
    const double one = speedup(1, 1);
    const double factor = restart_factor(job, job.restart_full_s);
    const int now = gpus_of(*job.current);
    const double nothing = 1 + kUnallocated;
    std::vector<double> values;
    for (int w = 1; w <= std::min(job.replicas_max, gpus); ++w) {
      const int nodes = (w + view.gpus_per_node - 1) / view.gpus_per_node;
      const double rate = one > 0 ? speedup(nodes, w) / one : w;
      const double power = 1 / std::sqrt(std::max(rate * (w == now ? 1 : factor), 1e-3));
      const double value = nothing - power - (w == now ? 0 : kChange);
      // Sizes between those that are allowed are worth less than any.
      values.push_back(is_size(w, view.gpus_per_node) ? value : -1e9);
    }
    return values;
  }
};

}  // namespace

std::unique_ptr<Allocator> make_sia(const AllocatorOptions&) { return std::make_unique<Sia>(); }

}  // namespace tangram::train

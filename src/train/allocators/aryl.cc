// Aryl, also Lyra (EuroSys'23): a GPU for each job, the shortest first, and the rest where it takes most off the
// running times, by a knapsack.
//
// The allocator is given the true running times; see true_runtime.h. A job's value with w GPUs is T (w - 1) / w, with T
// its time on one: what elasticity saves. DeepBoot's simulator leaves out the first phase; then long jobs starve the
// others (57,000 s on its own workload).

#include <algorithm>

#include "train/knapsack.h"
#include "train/true_runtime.h"

namespace tangram::train {
namespace {

class Aryl final : public Allocator {
 public:
  bool keeps_batches() const override { return true; }

  std::vector<Allocation> allocate(const RoundView& view) override {
    std::vector<double> alone_s;
    for (const auto& job : view.jobs) {
      alone_s.push_back(true_iterations_left(job) * true_step_s(job, 1, view.gpus_per_node));
    }
    std::vector<std::size_t> order(view.jobs.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return alone_s[i]; });
    order.resize(std::min(order.size(), static_cast<std::size_t>(view.gpus())));
    const int left = view.gpus() - static_cast<int>(order.size());
    std::vector<std::vector<double>> values;
    for (const std::size_t i : order) values.push_back(values_of(view.jobs[i], alone_s[i], left));
    const auto more = solve_knapsack(values, left);
    std::vector<int> counts(view.jobs.size(), 0);
    for (std::size_t k = 0; k < order.size(); ++k) counts[order[k]] = 1 + more[k];
    return place_counts(view, counts);
  }

 private:
  // Of each number of GPUs beyond the first.
  static std::vector<double> values_of(const JobView& job, double alone_s, int gpus) {
    std::vector<double> values;
    const int most = std::min(fixed_batch_replicas_max(job) - 1, gpus);
    for (int more = 1; more <= most; ++more) values.push_back(alone_s * more / (more + 1));
    return values;
  }
};

}  // namespace

std::unique_ptr<Allocator> make_aryl(const AllocatorOptions&) { return std::make_unique<Aryl>(); }

}  // namespace tangram::train

#include "train/knapsack_allocator.h"

#include "train/knapsack.h"

namespace tangram::train {

std::vector<Allocation> KnapsackAllocator::allocate(const RoundView& view) {
  // Values do not depend on where the GPUs are, so numbers come first and placement second.
  const int gpus = view.gpus();
  begin_round(view, gpus);
  std::vector<std::vector<double>> values;
  values.reserve(view.jobs.size());
  for (const auto& job : view.jobs) values.push_back(values_of(job, view, gpus));
  return place_counts(view, solve_knapsack(values, gpus));
}

}  // namespace tangram::train

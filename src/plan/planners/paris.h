// PARIS (Kim et al., DAC 2022): how many slices of each size one model needs.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace tangram::plan {

// One model whose queries arrive with their batch sizes inside.
struct ParisProblem {
  std::vector<int> sizes;           // Compute slices of the sizes on offer, ascending: 1, 2, 3, 4, 7.
  std::vector<double> batch_share;  // Share of queries with batch size b, at index b - 1.
  int compute_slices = 0;           // The budget.
  double knee = 0.8;                // Utilisation at which a size counts as full.
  // Seconds that a query of batch b takes on size number i.
  std::function<double(std::size_t, std::int64_t)> run_s;
};

struct ParisAnswer {
  std::vector<std::int64_t> knees;  // By size: the smallest batch that reaches the knee, as it was found.
  std::vector<int> counts;          // By size: slices.
};

// Each size owns the batches between its smaller neighbour's knee and its own; counts are in proportion to the busy
// time that the owned batches bring, so that all sizes fill up together. Shares are rounded down, what is left of the
// budget goes by largest fraction.
ParisAnswer paris(const ParisProblem& problem);

}  // namespace tangram::plan

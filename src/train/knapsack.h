// Which number of GPUs each job gets when values add up: the group knapsack.
#pragma once

#include <span>
#include <vector>

namespace tangram::train {

// `values[i][w - 1]` is what job i is worth with w GPUs; none is worth 0. Answers the numbers with the greatest sum
// within `capacity`, exactly, in O(capacity * sum of sizes). Of equal sums a job gets the smallest number above 0.
std::vector<int> solve_knapsack(std::span<const std::vector<double>> values, int capacity);

}  // namespace tangram::train

// Which number of GPUs each job gets when values add up: the group knapsack.
#pragma once

#include <span>
#include <vector>

namespace tangram::train {

// `values[i][w - 1]` is what job i is worth with w GPUs; none is worth 0. Answers the numbers with the greatest sum
// within `capacity`, exactly, in O(capacity * sum of sizes). Of equal sums a job gets the smallest number above 0.
// Where that would take long, the answer is that of solve_knapsack_by_hulls.
std::vector<int> solve_knapsack(std::span<const std::vector<double>> values, int capacity);

// Gives each GPU, or as many at once as have the highest mean value, to the job for which they are worth most. Exact
// for values with falling returns; otherwise it falls short of the best by less than the last GPUs that one job might
// have got.
std::vector<int> solve_knapsack_by_hulls(std::span<const std::vector<double>> values, int capacity);

}  // namespace tangram::train

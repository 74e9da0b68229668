#include "plan/planners/paris.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tangram::plan {
namespace {

// Flat up to `size` samples (1 s), then linear: the throughput peaks at `size` samples a second.
double flat_then_linear(int size, std::int64_t batch) { return batch <= size ? 1 : static_cast<double>(batch) / size; }

ParisProblem problem_with(std::vector<int> sizes, std::vector<double> share, int budget) {
  ParisProblem problem;
  problem.sizes = sizes;
  problem.batch_share = std::move(share);
  problem.compute_slices = budget;
  problem.run_s = [sizes](std::size_t i, std::int64_t b) { return flat_then_linear(sizes[i], b); };
  return problem;
}

// Size 1 peaks at batch 1, size 5 at batch 5, of which 80 % are reached at batch 4.
TEST(Paris, FindsTheKneeAtFourFifthsOfThePeak) {
  const auto answer = paris(problem_with({1, 5}, std::vector<double>(8, 0.125), 12));
  EXPECT_EQ(answer.knees, (std::vector<std::int64_t>{1, 4}));
}

// Size 1 owns batch 1 (share 1/2, 1 s), size 2 the rest (batch 2, share 1/2, 1 s): busy 0.5 s each. Counts are
// 0.5 x 12 / (1 x 0.5 + 2 x 0.5) = 4 of each, which use all 12.
TEST(Paris, CountsInProportionToBusyTime) {
  const auto answer = paris(problem_with({1, 2}, {0.5, 0.5}, 12));
  EXPECT_EQ(answer.counts, (std::vector<int>{4, 4}));
}

// Budget 7: 7 x 0.5 / 1.5 = 2.33 of each. 2 and 2 use 6; the fractions are equal and the smaller size stands first.
TEST(Paris, GivesTheRestByLargestFraction) {
  EXPECT_EQ(paris(problem_with({1, 2}, {0.5, 0.5}, 7)).counts, (std::vector<int>{3, 2}));
  // Shares 0.2 and 0.8: busy 0.2 and 0.8, load 1.8, so 0.78 and 3.1. The larger fraction gets the one that is left.
  EXPECT_EQ(paris(problem_with({1, 2}, {0.2, 0.8}, 7)).counts, (std::vector<int>{1, 3}));
}

// No query is larger than 1: the large size owns nothing and gets nothing.
TEST(Paris, LeavesOutSizesThatOwnNoBatches) {
  const auto answer = paris(problem_with({1, 4}, {1.0}, 7));
  EXPECT_EQ(answer.counts[0] + 4 * answer.counts[1], 7);
  EXPECT_EQ(paris(problem_with({1, 2}, {1.0, 0.0}, 5)).counts, (std::vector<int>{5, 0}));
}

// Whatever the mixture, the budget is not exceeded, and no slice that fits is left over.
TEST(Paris, UsesTheBudgetAndNoMore) {
  for (int budget = 7; budget < 60; ++budget) {
    std::vector<double> share(32, 1.0 / 32);
    const auto answer = paris(problem_with({1, 2, 3, 4, 7}, share, budget));
    const std::vector<int> sizes{1, 2, 3, 4, 7};
    const int used = std::inner_product(sizes.begin(), sizes.end(), answer.counts.begin(), 0);
    EXPECT_LE(used, budget);
    EXPECT_GE(used, budget - 6) << budget;
  }
}

}  // namespace
}  // namespace tangram::plan

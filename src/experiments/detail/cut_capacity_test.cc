#include "experiments/detail/cut_capacity.h"

#include <gtest/gtest.h>

namespace tangram::experiments::detail {
namespace {

// Half of the queries take 10 ms and half 20 ms, 15 ms on average: two slices serve 2 / 0.015 a second.
TEST(CutCapacity, OfEqualSlicesIsTheirNumberOverTheMeanRun) {
  EXPECT_NEAR(cut_capacity_alone({{2, {0.010, 0.020}}}, {0.5, 0.5}), 2 / 0.015, 0.07);
}

// Queries of two samples run on the second size alone, all in 10 ms. With half of each kind both slices are full at
// 200 a second. With three quarters of two samples the second is full at 1 / (0.75 * 0.010), whatever the first does.
TEST(CutCapacity, DividesQueriesAmongSizes) {
  const std::vector<SizedSlices> sizes{{1, {0.010}}, {1, {0.010, 0.010}}};
  EXPECT_NEAR(cut_capacity_alone(sizes, {0.5, 0.5}), 200, 0.1);
  EXPECT_NEAR(cut_capacity_alone(sizes, {0.25, 0.75}), 400.0 / 3, 0.07);
}

// The small slice needs 10 and 40 ms, the large one 5 and 8 ms. Half of each kind: with the small ones on the small
// slice it would do 200 a second and the large 250. At rate r and a share x of the small ones on the large slice, both
// are full when 0.5 (1 - x) 0.010 r = 1 = (0.5 x 0.005 + 0.5 * 0.008) r, so x = 2/15 and r = 3000/13.
TEST(CutCapacity, BalancesWhatEitherSizeCanDo) {
  EXPECT_NEAR(cut_capacity_alone({{1, {0.010, 0.040}}, {1, {0.005, 0.008}}}, {0.5, 0.5}), 3000.0 / 13, 0.12);
}

TEST(CutCapacity, IsZeroWhereSomeQueriesFitNowhere) {
  EXPECT_EQ(cut_capacity_alone({{3, {0.010}}}, {0.9, 0.1}), 0);
  EXPECT_EQ(cut_capacity_alone({}, {1}), 0);
}

// Two samples in 10 ms are the best batch: 200 samples a second for each slice, and 1.5 samples in a query.
TEST(CutCapacity, OfMergedQueriesIsThatOfTheBestBatch) {
  EXPECT_NEAR(cut_capacity_merged({{3, {0.008, 0.010}}}, {0.5, 0.5}), 3 * 200 / 1.5, 1e-9);
}

}  // namespace
}  // namespace tangram::experiments::detail

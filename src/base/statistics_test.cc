#include "base/statistics.h"

#include <gtest/gtest.h>

namespace tangram {
namespace {

// Four values have three gaps: the share 0.5 lies at 1.5 gaps, halfway between the second and the third value.
TEST(Quantile, IsLinearBetweenOrderStatistics) {
  EXPECT_DOUBLE_EQ(quantile({3, 10, 1, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({3, 10, 1, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(quantile({3, 10, 1, 2}, 1), 10);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.3), 7);
}

// The share 0.5 of four values is two of them, so the second; 0.51 is 2.04, so the third is the first that suffices.
TEST(QuantileNearestRank, IsAValueOfTheSample) {
  EXPECT_DOUBLE_EQ(quantile_nearest_rank({3, 10, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile_nearest_rank({3, 10, 1, 2}, 0.51), 3);
  EXPECT_DOUBLE_EQ(quantile_nearest_rank({3, 10, 1, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(quantile_nearest_rank({3, 10, 1, 2}, 1), 10);
  EXPECT_DOUBLE_EQ(quantile_nearest_rank({}, 0.5), 0);
}

// From the usual tables.
TEST(StudentT, AgreesWithTables) {
  EXPECT_NEAR(student_t(0.05, 7), 1.8946, 0.002);
  EXPECT_NEAR(student_t(0.005, 7), 3.4995, 0.005);
  EXPECT_NEAR(student_t(0.0005, 15), 4.0728, 0.005);
  EXPECT_NEAR(student_t(0.05, 3), 2.3534, 0.005);
  EXPECT_NEAR(student_t(0.025, 1000), 1.9623, 0.002);
}

}  // namespace
}  // namespace tangram

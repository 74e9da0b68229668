#include "measure/timing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"

namespace tangram::measure {
namespace {

// From the printed tables of Student's distribution.
TEST(StudentQuantile, AgreesWithTheTables) {
  for (const auto& [degrees, expected] : {std::pair{1UL, 12.706},
                                          {3UL, 3.182},
                                          {4UL, 2.776},
                                          {5UL, 2.571},
                                          {9UL, 2.262},
                                          {30UL, 2.042},
                                          {1000UL, 1.962}}) {
    EXPECT_NEAR(student_quantile_95(degrees), expected, 0.01 * expected) << degrees;
  }
}

// Mean 10, deviation sqrt((4 + 1 + 0 + 1 + 4) / 4) = 1.5811, error 1.5811 / sqrt(5) = 0.70711; times 2.776 is 1.963, or
// 0.1963 of the mean.
TEST(Summarise, GivesMeanSpreadAndInterval) {
  const std::vector<double> runs{8, 9, 10, 11, 12};
  const Timing timing = summarise(runs);
  EXPECT_DOUBLE_EQ(timing.mean_ms, 10);
  EXPECT_NEAR(timing.spread_ms, 1.5811, 1e-4);
  EXPECT_NEAR(timing.half_width, 0.1963, 1e-3);
  EXPECT_EQ(timing.runs, 5U);
  EXPECT_EQ(timing.outliers, 0U);
}

// Among 10 runs near 10 ms one of 100 ms would move the mean to 19.
TEST(Summarise, LeavesOutASingleSlowRun) {
  const std::vector<double> runs{9.9, 10.1, 10, 10.2, 9.8, 100, 10, 10.1, 9.9, 10};
  const Timing timing = summarise(runs);
  EXPECT_NEAR(timing.mean_ms, 10, 0.01);
  EXPECT_EQ(timing.outliers, 1U);
  EXPECT_EQ(timing.runs, 10U);
  EXPECT_LT(timing.half_width, 0.02);
}

// Three of ten runs are slow: that is how the model behaves, and the mean is (7 * 10 + 3 * 100) / 10.
TEST(Summarise, KeepsSlowRunsThatComeOften) {
  const std::vector<double> runs{10, 100, 10, 10, 100, 10, 10, 100, 10, 10};
  const Timing timing = summarise(runs);
  EXPECT_DOUBLE_EQ(timing.mean_ms, 37);
  EXPECT_EQ(timing.outliers, 0U);
}

// Runs of a timer with coarse steps are equal, so their median distance is zero; one step of 1 % is no outlier.
TEST(Summarise, KeepsASmallStepAmongEqualRuns) {
  const std::vector<double> runs{10, 10, 10, 10, 10, 10, 10, 10.1};
  EXPECT_EQ(summarise(runs).outliers, 0U);
}

TEST(Summarise, TrustsASingleRunWithNothing) {
  const std::vector<double> runs{10};
  EXPECT_TRUE(std::isinf(summarise(runs).half_width));
  EXPECT_EQ(summarise(runs).mean_ms, 10);
}

// 1,000 times ten normal runs: the interval should hold the true mean 95 % of the time; the deviation of that share is
// sqrt(0.95 * 0.05 / 1000) = 0.7 %.
TEST(Summarise, StatesIntervalsThatHoldTheMeanAsOftenAsTheySay) {
  Rng rng(7);
  int held = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<double> runs;
    for (int k = 0; k < 10; ++k) runs.push_back(rng.normal(10, 1));
    const Timing timing = summarise(runs);
    held += std::abs(timing.mean_ms - 10) <= timing.half_width * timing.mean_ms ? 1 : 0;
  }
  EXPECT_GE(held, 925);
  EXPECT_LE(held, 975);
}

}  // namespace
}  // namespace tangram::measure

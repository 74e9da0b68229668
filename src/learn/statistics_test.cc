#include "learn/statistics.h"

#include <gtest/gtest.h>

namespace tangram::learn {
namespace {

// Place 0.9 * 2 = 1.8 of {1, 2, 4}: 2 + 0.8 * (4 - 2).
TEST(Statistics, QuantilesAreLinearBetweenValues) {
  EXPECT_DOUBLE_EQ(quantile({4, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 2}, 0.9), 3.6);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.9), 7);
}

// ceil(21 * 0.95) = 20 of twenty values is the largest; with 39, ceil(40 * 0.95) = 38 is the second largest.
TEST(Statistics, ConformalQuantilesCountOneMoreValueThanThereIs) {
  std::vector<double> values;
  for (int i = 1; i <= 20; ++i) values.push_back(i);
  EXPECT_EQ(conformal_quantile(values, 0.95), 20);
  for (int i = 21; i <= 39; ++i) values.push_back(i);
  EXPECT_EQ(conformal_quantile(values, 0.95), 38);
}

// From printed tables: two-sided 95 % and 99 %; the median of |t| with four degrees is 0.741.
TEST(Statistics, StudentsQuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(student_quantile(0.95, 1), 12.706, 0.001);
  EXPECT_NEAR(student_quantile(0.95, 2), 4.303, 0.001);
  EXPECT_NEAR(student_quantile(0.95, 3), 3.182, 0.03);
  EXPECT_NEAR(student_quantile(0.95, 10), 2.228, 0.001);
  EXPECT_NEAR(student_quantile(0.99, 5), 4.032, 0.04);
  EXPECT_NEAR(student_quantile(0.5, 1), 1, 1e-6);
  EXPECT_NEAR(student_quantile(0.5, 4), 0.741, 0.001);
}

// Of five chances of one in twenty: at least one 1 - 0.95^5 = 22.6 %; at least two 2.26 %; none or more certainly.
TEST(Statistics, CountsHowProbableMissesAre) {
  EXPECT_NEAR(misses_probability(1, 5, 0.95), 0.2262, 1e-4);
  EXPECT_NEAR(misses_probability(2, 5, 0.95), 0.0226, 1e-4);
  EXPECT_EQ(misses_probability(0, 5, 0.95), 1);
  EXPECT_NEAR(misses_probability(6, 5, 0.95), 0, 1e-12);
}

}  // namespace
}  // namespace tangram::learn

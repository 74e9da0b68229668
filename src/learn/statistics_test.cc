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

}  // namespace
}  // namespace tangram::learn

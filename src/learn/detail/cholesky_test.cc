#include "learn/detail/cholesky.h"

#include <gtest/gtest.h>

namespace tangram::learn::detail {
namespace {

// [[4, 2], [2, 5]] has the factor [[2, 0], [1, 2]] and the inverse [[5, -2], [-2, 4]] / 16.
TEST(Cholesky, FactorsSolvesAndInverts) {
  std::vector<double> matrix{4, 2, 2, 5};
  factor(matrix, 2);
  EXPECT_DOUBLE_EQ(matrix[0], 2);
  EXPECT_DOUBLE_EQ(matrix[2], 1);
  EXPECT_DOUBLE_EQ(matrix[3], 2);
  const auto inverted = inverse(matrix, 2);
  EXPECT_DOUBLE_EQ(inverted[0], 5.0 / 16);
  EXPECT_DOUBLE_EQ(inverted[1], -2.0 / 16);
  EXPECT_DOUBLE_EQ(inverted[3], 4.0 / 16);
}

}  // namespace
}  // namespace tangram::learn::detail

#include "control/demand.h"

#include <gtest/gtest.h>

namespace tangram::control {
namespace {

// Half of one mix lies where the other has nothing: the distance is one half, in either direction. Sizes of one class
// are the same thing: 100 and 101 both lie between 2^6.5 and 2^7.
TEST(MixDistance, IsTheShareThatWouldHaveToMove) {
  const SizeCounts small{{10, 100}};
  const SizeCounts half{{10, 7}, {1000, 7}};
  EXPECT_DOUBLE_EQ(mix_distance(small, half), 0.5);
  EXPECT_DOUBLE_EQ(mix_distance(half, small), 0.5);
  EXPECT_DOUBLE_EQ(mix_distance({{100, 1}}, {{101, 5}}), 0);
}

// 1.1^25 = 10.83 and 1.1^26 = 11.92. A rate that is such a power stays where it is.
TEST(RoundedUp, IsTheNextPowerOfTheStep) {
  EXPECT_NEAR(rounded_up(11, 0.1), 11.918, 1e-3);
  EXPECT_NEAR(rounded_up(11.9, 0.1), 11.918, 1e-3);
  const double power = rounded_up(11, 0.1);
  EXPECT_EQ(rounded_up(power, 0.1), power);
}

// One request of 10 and three of 30 have the mean 100 / 4.
TEST(MeanSize, WeighsSizesByTheirCounts) {
  EXPECT_DOUBLE_EQ(mean_size({{10, 1}, {30, 3}}), 25);
  EXPECT_DOUBLE_EQ(mean_size({}), 0);
}

}  // namespace
}  // namespace tangram::control

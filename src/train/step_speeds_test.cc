#include "train/step_speeds.h"

#include <gtest/gtest.h>

namespace tangram::train {
namespace {

// Eight parts of 100 ms: alone 0.8 s, two 0.4 s and 0.02 s of waiting for each other. What was timed is taken as it is.
TEST(StepSpeeds, AreThoseOfTheStepsThatWereTimed) {
  const std::vector<double> steps{0.8, 0.42};
  const auto speeds = speeds_from_steps(steps, 8);
  ASSERT_EQ(speeds.size(), 3U);
  EXPECT_DOUBLE_EQ(speeds[0], 1 / 0.8);
  EXPECT_DOUBLE_EQ(speeds[1], 1 / 0.42);
  // Three trainers have three parts at most: 0.3 s and again about 0.02 s.
  EXPECT_NEAR(1 / speeds[2], 0.32, 0.03);
}

// Four parts on three trainers take two rounds, as on two: the third brings nothing.
TEST(StepSpeeds, KnowThatAnUnevenShareBringsNothing) {
  const std::vector<double> steps{0.4, 0.2};
  const auto speeds = speeds_from_steps(steps, 4);
  ASSERT_EQ(speeds.size(), 3U);
  EXPECT_LT(speeds[2] / speeds[1], 1.02);
}

// Two trainers were never timed: four parts each, between eight and three.
TEST(StepSpeeds, FillAGap) {
  const std::vector<double> steps{0.8, 0, 0.3};
  const auto speeds = speeds_from_steps(steps, 8);
  ASSERT_EQ(speeds.size(), 4U);
  EXPECT_GT(speeds[1], speeds[0]);
  EXPECT_GT(speeds[2], speeds[1]);
}

TEST(StepSpeeds, AreUnknownBeforeAStepWasTimed) {
  EXPECT_TRUE(speeds_from_steps({}, 8).empty());
  const std::vector<double> none{0, 0};
  EXPECT_TRUE(speeds_from_steps(none, 8).empty());
}

}  // namespace
}  // namespace tangram::train

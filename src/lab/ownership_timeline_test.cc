#include "lab/ownership_timeline.h"

#include <gtest/gtest.h>

namespace tangram::lab {
namespace {

// Two GPUs train for 3 s and one for 1 s more: 7 GPU-seconds in a step of 4 s are 1.75 GPUs. The last 2 s fill no step,
// but count in the sum: (6 + 1 + 2 * 4) / 3600 hours.
TEST(OwnershipTimeline, AveragesOverStepsAndSumsOverEverything) {
  OwnershipTimeline timeline(4);
  timeline.add({.training = 2, .free = 2}, 0, 3);
  timeline.add({.training = 1, .free = 3}, 3, 4);
  timeline.add({.training = 4}, 4, 6);
  ASSERT_EQ(timeline.steps().size(), 1U);
  EXPECT_DOUBLE_EQ(timeline.steps()[0].training, 1.75);
  EXPECT_DOUBLE_EQ(timeline.steps()[0].free, 2.25);
  EXPECT_DOUBLE_EQ(timeline.gpu_hours().training, 15.0 / 3600);
}

// 960 steps of 1 s are joined to 480 of 2 s, so that the next 40 s make 20 steps.
TEST(OwnershipTimeline, MakesStepsLongerInsteadOfMore) {
  OwnershipTimeline timeline(1);
  for (int second = 0; second < 1000; ++second) timeline.add({.training = 1}, second, second + 1);
  ASSERT_EQ(timeline.steps().size(), 500U);
  EXPECT_DOUBLE_EQ(timeline.steps()[1].at_s, 2);
  for (const auto& step : timeline.steps()) EXPECT_DOUBLE_EQ(step.training, 1);
}

}  // namespace
}  // namespace tangram::lab

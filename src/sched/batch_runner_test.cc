#include "sched/batch_runner.h"

#include <gtest/gtest.h>

#include "sched/test_parts.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;
using testing::Notes;
using testing::Parts;

// One 7g: 4 ms for one sample, 7 ms for two.
testing::FixtureConfig runner_config(double correction_weight = 0) {
  testing::FixtureConfig config;
  config.scheduler.correction_weight = correction_weight;
  return config;
}

TEST(BatchRunner, MakesTheSliceBusyForThePredictedTime) {
  Parts parts(runner_config());
  parts.launch(SliceId(0), {parts.request(1s), parts.request(1s)});
  EXPECT_EQ(parts.world.notes, Notes{"launch on 0: r0 r1"});
  EXPECT_EQ(parts.state.slices[0].free_at, kTimeZero + 7ms);
  EXPECT_EQ(parts.state.waiting_count, 0u);
  EXPECT_EQ(parts.state.check(), "");
}

TEST(BatchRunner, DoesNotLaunchMoreThanThePlanAllows) {
  Parts parts(runner_config());
  EXPECT_DEATH(parts.launch(SliceId(0), {parts.request(1s), parts.request(1s), parts.request(1s)}), "plan's limit");
}

// 8 ms instead of 4 ms: the factor moves a tenth of the way from 1 to 2.
TEST(BatchRunner, LearnsHowLongABatchTook) {
  Parts parts(runner_config(0.1));
  parts.launch(SliceId(0), {parts.request(1s)});
  parts.state.now = kTimeZero + 8ms;
  parts.runner.end(SliceId(0));
  EXPECT_EQ(parts.world.notes.back(), "r0 served");
  EXPECT_DOUBLE_EQ(parts.state.corrections.factor(0, 0, 1), 1.1);
}

TEST(BatchRunner, HandsTheMembersOfALostBatchBack) {
  Parts parts(runner_config());
  Waiting* member = parts.request(1s);
  parts.launch(SliceId(0), {member});
  EXPECT_EQ(parts.runner.take_members(SliceId(0)), std::vector{member});
  EXPECT_TRUE(parts.state.slices[0].members.empty());
  EXPECT_EQ(parts.state.store.used(), 1u);
}

// Ten times the p99 of 4 ms is 40 ms, which decides; where the least is 1 s, that does.
TEST(IsStuck, NeedsBothManyTimesThePredictionAndTheLeastTime) {
  Parts parts(runner_config());
  const SliceState& slice = parts.state.slices[0];
  EXPECT_FALSE(is_stuck(parts.view, slice, 10, 1ms));  // Idle.
  parts.launch(SliceId(0), {parts.request(1s)});
  parts.state.now = kTimeZero + 40ms;
  EXPECT_FALSE(is_stuck(parts.view, slice, 10, 1ms));
  parts.state.now = kTimeZero + 40ms + 1ns;
  EXPECT_TRUE(is_stuck(parts.view, slice, 10, 1ms));
  EXPECT_FALSE(is_stuck(parts.view, slice, 10, 1s));
}

}  // namespace
}  // namespace tangram::sched

#include "sched/dispatcher.h"

#include <gtest/gtest.h>

#include "sched/test_parts.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;
using testing::Notes;
using testing::Parts;

// Two 1g, 10 ms for one sample.
testing::FixtureConfig dispatcher_config(const std::string& policy) {
  testing::FixtureConfig config;
  config.policy = policy;
  config.layouts = {"1g@0 + 1g@1"};
  config.latency = {{"1g", {10ms}}};
  return config;
}

TEST(Dispatcher, StartsARequestAtOnceWhileASliceIsIdle) {
  Parts parts(dispatcher_config("fifs"));
  for (int i = 0; i < 3; ++i) parts.dispatcher.place(parts.request(1h));
  EXPECT_EQ(parts.world.notes, (Notes{"launch on 0: r0", "launch on 1: r1"}));
  EXPECT_EQ(parts.state.waiting_count, 1u);
  EXPECT_EQ(parts.state.check(), "");
}

// Requests 2 and 3 wait for slices 0 and 1. When slice 0 is lost, request 2 waits for slice 1, behind request 3.
TEST(Dispatcher, PlacesTheQueueOfASliceThatIsLostElsewhere) {
  Parts parts(dispatcher_config("elsa"));
  for (int i = 0; i < 4; ++i) parts.dispatcher.place(parts.request(1h));
  EXPECT_EQ(parts.state.slices[0].bound.count(), 1u);
  parts.runner.take_members(SliceId(0));
  parts.state.slices.go_away(SliceId(0), SliceStatus::restarting);
  parts.state.count_capacity();
  parts.dispatcher.abandon(SliceId(0));
  EXPECT_EQ(parts.state.slices[0].bound.count(), 0u);
  EXPECT_EQ(parts.state.slices[1].bound.count(), 2u);
  EXPECT_EQ(parts.state.waiting_count, 2u);
}

TEST(Dispatcher, TakesAllRequestsOutOfTheirQueuesAndStillCountsThem) {
  Parts parts(dispatcher_config("elsa"));
  for (int i = 0; i < 5; ++i) parts.dispatcher.place(parts.request(1h));
  EXPECT_EQ(parts.dispatcher.take_all().size(), 3u);
  EXPECT_EQ(parts.state.waiting_count, 3u);
  EXPECT_TRUE(parts.state.slices[0].bound.empty());
  EXPECT_EQ(parts.state.slices[0].free_at, kTimeZero + 10ms);
}

// Both slices hang. Where the policy gives up, request 2 is due at its deadline and rejected then.
TEST(Dispatcher, RejectsAWaitingRequestAtItsDeadlineWhereThePolicyGivesUp) {
  Parts parts(dispatcher_config("tangram"));
  parts.dispatcher.place(parts.request(1h));
  parts.dispatcher.place(parts.request(1h));
  parts.dispatcher.place(parts.request(30ms));
  EXPECT_EQ(parts.dispatcher.next_due(), kTimeZero + 30ms);
  parts.state.now = kTimeZero + 30ms;
  parts.dispatcher.reject_expired();
  EXPECT_EQ(parts.world.notes.back(), "r2 rejected");
  EXPECT_EQ(parts.state.waiting_count, 0u);
  EXPECT_EQ(parts.dispatcher.next_due(), kTimeNever);
  EXPECT_EQ(parts.state.check(), "");
}

}  // namespace
}  // namespace tangram::sched

#include "sched/background_runner.h"

#include <gtest/gtest.h>

#include "sched/test_parts.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;
using testing::Notes;
using testing::Parts;

// One 7g, 4 ms for one sample, and an Slo of an hour: slack for any background batch.
testing::FixtureConfig background_config() { return {}; }

Request background_request(std::uint64_t id, Duration deadline) {
  Request made;
  made.id = RequestId(id);
  made.service = ServiceId(0);
  made.priority = kPriorityBackground;
  made.deadline = kTimeZero + deadline;
  return made;
}

TEST(BackgroundRunner, RunsARequestAtOnceOnAnIdleSlice) {
  Parts parts(background_config());
  parts.background.arrive(background_request(0, 1s));
  EXPECT_EQ(parts.world.notes, Notes{"launch on 0: r0"});
  EXPECT_EQ(parts.state.check(), "");
}

// The slice is busy: the request waits, is asked about again 100 ms later, and is rejected once its deadline is over.
TEST(BackgroundRunner, RejectsARequestThatWaitsBeyondItsDeadline) {
  Parts parts(background_config());
  parts.launch(SliceId(0), {parts.request(1h)});
  parts.background.arrive(background_request(7, 150ms));
  EXPECT_EQ(parts.state.waiting_count, 1u);
  EXPECT_EQ(parts.background.due(), kTimeZero + 100ms);
  parts.state.now = kTimeZero + 100ms;
  parts.background.on_due();
  EXPECT_EQ(parts.state.waiting_count, 1u);
  parts.state.now = kTimeZero + 200ms;
  parts.background.on_due();
  EXPECT_EQ(parts.world.notes.back(), "r7 rejected");
  EXPECT_EQ(parts.background.due(), kTimeNever);
  EXPECT_EQ(parts.state.check(), "");
}

TEST(BackgroundRunner, RejectsAllThatWaitAndArriveOnceTheWorldEnds) {
  Parts parts(background_config());
  parts.launch(SliceId(0), {parts.request(1h)});
  parts.background.arrive(background_request(7, 1h));
  parts.background.on_ending();
  EXPECT_EQ(parts.world.notes.back(), "r7 rejected");
  parts.background.arrive(background_request(8, 1h));
  EXPECT_EQ(parts.world.notes.back(), "r8 rejected");
  EXPECT_EQ(parts.state.waiting_count, 0u);
}

}  // namespace
}  // namespace tangram::sched

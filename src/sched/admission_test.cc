#include "sched/admission.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;

// One 1g, which takes 10 ms for a sample and one at a time, and one 7g, which takes 4 ms and 7 ms for two.
class AdmissionTest : public ::testing::Test {
 protected:
  static Deployment deployment() {
    testing::FixtureConfig config;
    config.latency = {{"1g", {10ms}}, {"7g", {4ms, 7ms}}};
    config.services = {{.edges = {16, 64}}};
    return deployment_of(config, {"1g@0", "7g@0"});
  }
  static Request request(Duration deadline, std::int32_t samples = 1) {
    Request made;
    made.service = ServiceId(0);
    made.samples = samples;
    made.deadline = kTimeZero + deadline;
    return made;
  }
  void run(std::uint32_t slice, Duration length) {
    BatchDraft batch = state_.slices.draft(SliceId(slice));
    batch.add(&running_);
    state_.slices.go_busy(SliceId(slice), {BatchId(1), ServiceId(0), 0, 1, state_.now, length});
  }
  void lend(std::uint32_t slice) {
    state_.slices.go_away(SliceId(slice), SliceStatus::lent);
    state_.count_capacity();
  }
  void lose(std::uint32_t slice) {
    state_.slices.leave(SliceId(slice));
    state_.count_capacity();
  }

  State state_{deployment(), 100, 0};
  View view_{state_};
  Waiting running_;
};

TEST_F(AdmissionTest, RejectsForGoodOnlyWhatNoSliceWillTake) {
  EXPECT_EQ(why_never(view_, request(1s, 2), 0), RejectReason::none);
  EXPECT_EQ(why_never(view_, request(1s, 3), 0), RejectReason::too_large);
  lend(1);
  EXPECT_EQ(why_never(view_, request(1s, 2), 0), RejectReason::none);  // It comes back.
}

// Only the 7g, slice 1, takes two samples.
TEST_F(AdmissionTest, HasNoCapacityOnceTheLastSliceThatTakesARequestIsGone) {
  lose(1);
  EXPECT_EQ(why_never(view_, request(1s, 2), 0), RejectReason::no_capacity);
  EXPECT_EQ(why_never(view_, request(1s, 1), 0), RejectReason::none);
}

TEST_F(AdmissionTest, IsServedNowByBusySlicesButNotByLentOnes) {
  run(1, 5ms);
  EXPECT_TRUE(serves_now(view_, request(1s, 2), 0));
  lend(0);
  EXPECT_TRUE(serves_now(view_, request(1s, 1), 0));
}

// Idle: 4 ms on the 7g. Busy until 20 ms: 10 ms on the 1g. Both busy until 20 and 5 ms: 5 + 10 on the 1g.
TEST_F(AdmissionTest, FinishesEarliestOnTheSliceThatIsFreeFirst) {
  EXPECT_EQ(earliest_finish(view_, request(1s), 0), kTimeZero + 4ms);
  run(1, 20ms);
  EXPECT_EQ(earliest_finish(view_, request(1s), 0), kTimeZero + 10ms);
  run(0, 5ms);
  EXPECT_EQ(earliest_finish(view_, request(1s), 0), kTimeZero + 15ms);
  EXPECT_EQ(earliest_finish(view_, request(1s, 2), 0), kTimeZero + 27ms);
}

TEST_F(AdmissionTest, NeverFinishesWhileAllSlicesThatTakeItAreAway) {
  lend(1);
  EXPECT_EQ(earliest_finish(view_, request(1s, 2), 0), kTimeNever);
  EXPECT_FALSE(may_end_in_time(view_, request(1s, 2), 0, true));
}

// The fastest slice needs 4 ms, whatever runs there now. A size of 65 has no bucket: not a matter of time.
TEST_F(AdmissionTest, CouldBeInTimeIfTheFastestSliceWereIdle) {
  run(1, 1s);
  EXPECT_TRUE(could_be_in_time(view_, request(4ms)));
  EXPECT_FALSE(could_be_in_time(view_, request(4ms - 1ns)));
  Request large = request(1ms);
  large.size = 65;
  EXPECT_TRUE(could_be_in_time(view_, large));
}

// The quick answer and the exact one, over random loads, waiting requests and deadlines.
TEST_F(AdmissionTest, MayEndInTimeExactlyIfItsEarliestFinishIsNotAfterItsDeadline) {
  Rng rng(3);
  int in_time = 0;
  for (int round = 0; round < 2000; ++round) {
    State state(deployment(), 100, 0);
    const View view(state);
    Waiting running;
    for (const SliceId id : {SliceId(0), SliceId(1)}) {
      if (rng.chance(0.3)) continue;
      BatchDraft batch = state.slices.draft(id);
      batch.add(&running);
      state.slices.go_busy(id, {BatchId(1), ServiceId(0), 0, 1, state.now, rng.integer(1, 30) * 1ms});
    }
    for (auto waiting = rng.below(6); waiting > 0; --waiting) {
      const Request other = request(1s);
      state.lane_insert(state.lane_of(ServiceId(0), 0, 1), state.store.take(other, 0));
    }
    const Request asked = request(rng.integer(1, 45) * 1ms, static_cast<std::int32_t>(rng.integer(1, 2)));
    const bool exact = earliest_finish(view, asked, 0) <= asked.deadline;
    EXPECT_EQ(may_end_in_time(view, asked, 0, false), exact);
    EXPECT_EQ(may_end_in_time(view, asked, 0, true), exact);
    in_time += exact ? 1 : 0;
  }
  EXPECT_GT(in_time, 200);
  EXPECT_LT(in_time, 1800);
}

}  // namespace
}  // namespace tangram::sched

#include "sched/background.h"

#include <gtest/gtest.h>

#include <set>

#include "sched/policy.h"
#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;
using testing::ArrivalSpec;
using testing::Batches;
using testing::FixtureConfig;
using testing::SimFixture;

// One slice; a batch of n takes as long as the n-th of the list says; the promise is 100 ms.
FixtureConfig slice_with_promise(std::vector<Duration> latency) {
  FixtureConfig config;
  config.latency = {{"7g", std::move(latency)}};
  config.services[0].slo = 100ms;
  return config;
}

ArrivalSpec row(Duration at, int priority = kPriorityBackground) { return {.at = at, .priority = priority}; }

// The slack of a service that nothing is known about is a quarter of its promise, 25 ms, and a batch may take half of
// it: 12.5 ms. The first row runs alone because it finds the slice idle; of the others three at a time end in 10 ms,
// four would take 13 ms.
TEST(Background, RunsBatchesNoLongerThanHalfTheSlack) {
  SimFixture sim(slice_with_promise({4ms, 7ms, 10ms, 13ms, 16ms}));
  for (int i = 0; i < 8; ++i) sim.arrive(row(0ms));
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {1, 2, 3}, {4, 5, 6}, {7}}));
}

// Row 0 holds the slice until 4 ms. Then request 3 goes first, although it came last; its batch has room for one row.
TEST(Background, LetsOnlineRequestsGoFirst) {
  SimFixture sim(slice_with_promise({4ms, 7ms}));
  for (int i = 0; i < 3; ++i) sim.arrive(row(0ms));
  sim.arrive({.at = 1ms, .deadline = 101ms});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {3, 1}, {2}}));
  EXPECT_EQ(run.starts, (std::vector<Duration>{0ms, 4ms, 11ms}));
}

// Half of the slack is 12.5 ms, enough for three in 10 ms. Request 6 must end 9 ms after its start at 4 ms, so it takes
// one row along; request 7 must end 5 ms after its start at 11 ms and goes alone.
TEST(Background, FillsUpOnlineBatchesThatStayInTime) {
  auto config = slice_with_promise({4ms, 7ms, 10ms});
  config.policy = "fifs";
  config.scheduler.policy_config.merge = true;
  SimFixture sim(config);
  for (int i = 0; i < 6; ++i) sim.arrive(row(0ms));
  sim.arrive({.at = 1ms, .deadline = 13ms});
  sim.arrive({.at = 10ms, .deadline = 16ms});
  const auto run = sim.run();
  ASSERT_GE(run.batches.size(), 3U);
  EXPECT_EQ(run.batches[0], (std::vector<std::uint64_t>{0}));
  EXPECT_EQ(run.batches[1], (std::vector<std::uint64_t>{6, 1}));
  EXPECT_EQ(run.batches[2], (std::vector<std::uint64_t>{7}));
}

// Three requests end 2 ms before their deadlines, and each halves the distance to that: 25 ms become 13.5, 7.8 and 4.9
// ms. A row takes 4 ms and needs 8 ms of slack; 5 ms are forgiven in a second, so that is 0.6 s later, or up to a tenth
// of a second more, because that is how often the slice is asked.
TEST(Background, WaitsWhileOnlineRequestsHaveLittleTimeToSpare) {
  SimFixture sim(slice_with_promise({4ms, 7ms}));
  sim.arrive(row(0ms));
  for (int i = 0; i < 3; ++i) sim.arrive({.at = 10ms + i * 5ms, .deadline = 16ms + i * 5ms});
  sim.arrive(row(21ms));  // While request 3 runs, until 24 ms.
  const auto run = sim.run();
  ASSERT_EQ(run.batches, (Batches{{0}, {1}, {2}, {3}, {4}}));
  EXPECT_GT(run.starts[4], 600ms);
  EXPECT_LT(run.starts[4], 750ms);
}

// A request that takes 4 ms and is wanted in 4.5 ms finds the slice busy until 4 ms and is rejected. That counts as late
// by a whole promise: 25 ms of slack become (25 - 100) / 2 = -37.5 ms, and the 8 ms that a row needs are there
// again 9.1 s later.
TEST(Background, WaitsLongerAfterAnOnlineRequestWasRejected) {
  SimFixture sim(slice_with_promise({4ms, 7ms}));
  sim.arrive(row(0ms));
  sim.arrive({.at = 1ms, .deadline = 5500us});
  sim.arrive(row(20ms));
  const auto run = sim.run();
  EXPECT_EQ(run.outcomes[1], OutcomeKind::rejected);
  ASSERT_EQ(run.batches, (Batches{{0}, {2}}));
  EXPECT_GT(run.starts[1], 9s);
  EXPECT_LT(run.starts[1], 9300ms);
}

// A run takes 90 of the 100 ms, so 10 ms is all the slack there can be, and no row fits into half of it. It is rejected
// when its time is up, at the next look, which is every tenth of a second.
TEST(Background, IsRejectedAtItsDeadlineIfItNeverFits) {
  SimFixture sim(slice_with_promise({90ms}));
  auto spec = row(0ms);
  spec.deadline = 1s;
  sim.arrive(spec);
  const auto run = sim.run();
  EXPECT_TRUE(run.batches.empty());
  EXPECT_EQ(sim.outcome(0).reason, RejectReason::too_late);
  EXPECT_GE(sim.resolved_at(0), 1s);
  EXPECT_LE(sim.resolved_at(0), 1100ms);
}

// A request that must be answered within a millisecond is rejected, whatever else runs. That is no sign of a busy slice:
// rows go on as if it had not come.
TEST(Background, IsNotHeldUpByDeadlinesThatNobodyCouldKeep) {
  SimFixture sim(slice_with_promise({4ms, 7ms}));
  for (int i = 0; i < 50; ++i) sim.arrive({.at = i * 1ms, .deadline = i * 1ms + 1ms});
  for (int i = 0; i < 4; ++i) sim.arrive(row(50ms));
  EXPECT_EQ(sim.run().batches, (Batches{{50}, {51, 52}, {53}}));
}

// Row 0 runs until 4 ms; the others wait. The World is about to end at 1 ms: row 0 is answered, the others are rejected
// at once, and so is row 3, which comes later. Request 4 is served.
TEST(Background, IsRejectedWhenTheWorldIsAboutToEnd) {
  SimFixture sim(slice_with_promise({4ms}));
  for (int i = 0; i < 3; ++i) sim.arrive(row(0ms));
  sim.arrive(row(2ms));
  sim.arrive({.at = 3ms, .deadline = 103ms});
  sim.at(1ms, [&] { sim.scheduler().on_ending(); });
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {4}}));
  for (const std::uint64_t rejected : {1U, 2U, 3U}) {
    EXPECT_EQ(sim.outcome(rejected).reason, RejectReason::no_capacity);
    EXPECT_EQ(sim.resolved_at(rejected), rejected == 3 ? 2ms : 1ms);
  }
}

// A row takes 15 ms. Half of 25 ms of slack is too little, three quarters are enough: the pressed one runs at once, the
// other when the slack is 30 ms, after a second.
TEST(Background, GivesPressedRowsMoreOfTheSlack) {
  SimFixture sim(slice_with_promise({15ms}));
  sim.arrive(row(0ms));
  sim.arrive(row(0ms, kPriorityBackgroundPressed));
  const auto run = sim.run();
  ASSERT_EQ(run.batches, (Batches{{1}, {0}}));
  EXPECT_EQ(run.starts[0], 0ms);
  EXPECT_GE(run.starts[1], 1s);
}

// Rows of the large bucket take twice as long and do not fit; the one of the small bucket behind them does.
TEST(Background, PassesOverRowsThatDoNotFit) {
  auto config = slice_with_promise({8ms});
  config.services[0].edges = {10, 20};
  config.size_factor = [](std::int64_t size) { return size > 10 ? 2.0 : 1.0; };
  SimFixture sim(config);
  auto large = row(0ms);
  large.size = 20;
  sim.arrive(large);
  sim.arrive(row(1ms));
  const auto run = sim.run();
  ASSERT_EQ(run.batches, (Batches{{1}, {0}}));
  EXPECT_EQ(run.starts[0], 1ms);
}

// The first batch fails; its row runs again and is answered.
TEST(Background, RunsAgainWhatFailed) {
  auto config = slice_with_promise({4ms});
  config.reality.succeeds = [](const Batch& batch) { return batch.id.value() != 1; };
  SimFixture sim(config);
  sim.arrive(row(0ms));
  EXPECT_EQ(sim.run().outcomes, std::vector{OutcomeKind::served});
}

// Rows that wait while the device is cut anew run on its new slices.
TEST(Background, SurvivesAChangeOfPlan) {
  auto config = slice_with_promise({4ms});
  config.layouts = {"7g@0"};
  config.latency["3g"] = {6ms};
  SimFixture sim(config);
  for (int i = 0; i < 3; ++i) sim.arrive(row(0ms));
  sim.change_plan(1ms, {"3g@0 + 3g@4"});
  const auto run = sim.run();
  EXPECT_EQ(run.outcomes, std::vector(3, OutcomeKind::served));
}

// A row too large for every bucket, and one too many.
TEST(Background, RejectsAtOnceARowThatCanNeverRun) {
  SimFixture sim(slice_with_promise({4ms}));
  auto large = row(0ms);
  large.size = 2;
  sim.arrive(large);
  for (std::size_t i = 0; i < kBackgroundMax + 2; ++i) sim.arrive(row(1ms));
  sim.at(2ms, [&] { EXPECT_EQ(sim.outcome(kBackgroundMax + 2).reason, RejectReason::queue_full); });
  sim.run();
  EXPECT_EQ(sim.outcome(0).reason, RejectReason::too_large);
}

// Whatever the policy, rows take turns with requests, every one is answered, and none makes a request late: a request
// comes every 10 ms, takes 4 ms and has 100 ms, of which a row takes 4 ms at most.
TEST(Background, WorksBesideEveryPolicy) {
  for (const auto& policy : policies()) {
    SCOPED_TRACE(policy.name);
    auto config = slice_with_promise({4ms, 7ms});
    config.policy = std::string(policy.name);
    SimFixture sim(config);
    for (int i = 0; i < 20; ++i) sim.arrive({.at = i * 10ms, .deadline = i * 10ms + 100ms});
    for (int i = 0; i < 20; ++i) sim.arrive(row(i * 1ms));
    EXPECT_EQ(sim.run().outcomes, std::vector(40, OutcomeKind::served));
  }
}

// Every run takes 20 ms of a promise of 100 ms, but the first stalls for 1.5 s. It counts as ten times as long as
// predicted: the mean becomes 1.9 times 20 ms, with the spread the p99 is 63 ms, and half of what that leaves of the
// promise is 18 ms. Nothing is online that would measure run times again, and yet the second row runs.
TEST(Background, GoesOnAfterAStallThatNobodyElseMeasuresAgain) {
  auto config = slice_with_promise({20ms});
  config.reality.run_time = [](const Batch& batch) { return batch.id == BatchId(1) ? 1500ms : 20ms; };
  SimFixture sim(config);
  sim.arrive(row(6s));
  sim.arrive(row(20s));
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {1}}));
  EXPECT_LT(run.starts[1], 30s);
}

// A run takes 40 ms of a promise of 100 ms. Alone on the slice it leaves 60 ms, of which a background run may take
// half, 30 ms, so that it never starts; pressed it may take three quarters, 45 ms. At first the slack is a quarter of
// the promise, and half of that is 12.5 ms.
TEST(Background, TellsWhatKeepsRowsWaiting) {
  SimFixture sim(slice_with_promise({40ms}));
  const auto outlook = [&] { return sim.scheduler().background_outlook(ServiceId(0)); };
  EXPECT_EQ(outlook().waiting, 0U);
  for (const auto& [at, priority] : {std::pair(0ms, kPriorityBackground), std::pair(1ms, kPriorityBackground),
                                     std::pair(10ms, kPriorityBackgroundPressed)}) {
    ArrivalSpec spec = row(at, priority);
    spec.deadline = 50ms;
    sim.arrive(spec);
  }
  sim.at(2ms, [&] {
    EXPECT_EQ(outlook().waiting, 2U);
    EXPECT_EQ(outlook().run, 40ms);
    EXPECT_EQ(outlook().run_idle, 40ms);
    EXPECT_EQ(outlook().run_max_idle, 30ms);
    EXPECT_GE(outlook().run_max, 12500us);
    EXPECT_LT(outlook().run_max, 13ms);
    EXPECT_FALSE(outlook().online_waits);
  });
  sim.at(11ms, [&] {
    EXPECT_EQ(outlook().waiting, 3U);
    EXPECT_EQ(outlook().run_max_idle, 45ms);
  });
  EXPECT_TRUE(sim.run().batches.empty());
}

}  // namespace
}  // namespace tangram::sched

#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;
using testing::Batches;
using testing::deployment_of;
using testing::FixtureConfig;
using testing::SimFixture;

constexpr auto kServed = OutcomeKind::served;
constexpr auto kRejected = OutcomeKind::rejected;
constexpr auto kFailed = OutcomeKind::failed;
constexpr auto kAbandoned = OutcomeKind::abandoned;

FixtureConfig one_service_cluster(std::string policy, std::vector<std::string> layouts, testing::LatencyLists latency) {
  FixtureConfig config;
  config.policy = std::move(policy);
  config.layouts = std::move(layouts);
  config.latency = std::move(latency);
  return config;
}

// ---- Admission and bounds ----

// Request 0 runs until 10 ms; request 1 could follow it and end at 20 ms, past its deadline at 15 ms.
TEST(Admission, RejectsARequestThatCannotBeInTimeAndTellsTheEarliestTime) {
  SimFixture sim(one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}}));
  sim.arrive({.at = 0ms});
  sim.arrive({.at = 1ms, .deadline = 15ms});
  sim.arrive({.at = 1ms, .deadline = 20ms});
  EXPECT_EQ(sim.run().outcomes, (std::vector{kServed, kRejected, kServed}));
  EXPECT_EQ(sim.outcome(1).reason, RejectReason::too_late);
  EXPECT_EQ(sim.outcome(1).earliest, kTimeZero + 20ms);
  EXPECT_EQ(sim.resolved_at(1), 1ms);
}

// n samples take n + 3 ms, four at most. Request 3 arrives at 1 ms and can join the two that wait for the slice, which
// is free at 4 ms: three end at 10 ms. Adding up what waits (2 x 7/4 ms) and a run alone (4 ms) would say 11.5 ms.
TEST(Admission, CountsOnSharingABatchWithWhatWaits) {
  SimFixture sim(one_service_cluster("edf", {"7g@0"}, {{"7g", {4ms, 5ms, 6ms, 7ms}}}));
  for (int i = 0; i < 3; ++i) sim.arrive({.at = 0ms});
  sim.arrive({.at = 1ms, .deadline = 10500us});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {3, 1, 2}}));
  EXPECT_EQ(run.outcomes[3], kServed);
}

// Fifty requests wait that have an hour. One that has 25 ms goes before them: it starts when the running batch ends at
// 10 ms, and ends at 20 ms. Another with 25 ms would be third, at 30 ms.
TEST(Admission, CountsOnlyWhatRunsBefore) {
  SimFixture sim(one_service_cluster("edf", {"7g@0"}, {{"7g", {10ms}}}));
  for (int i = 0; i < 51; ++i) sim.arrive({.at = 0ms});
  sim.arrive({.at = 1ms, .deadline = 26ms});
  sim.arrive({.at = 1ms, .deadline = 26ms});
  const auto run = sim.run();
  EXPECT_EQ(run.outcomes[51], kServed);
  EXPECT_EQ(sim.resolved_at(51), 20ms);
  EXPECT_EQ(run.outcomes[52], kRejected);
  EXPECT_EQ(sim.outcome(52).earliest, kTimeZero + 30ms);
}

// The bucket up to 32 takes one sample, that up to 128 takes four: two short samples are padded to 128, one is not.
// Five are too many for either.
TEST(Admission, PassesOverABucketThatTakesTooFewSamples) {
  FixtureConfig config = one_service_cluster("tangram", {"7g@0"}, {{"7g", {1ms, 1ms, 1ms, 1ms}}});
  config.services[0].edges = {32, 128};
  Deployment deployment = deployment_of(config, config.layouts);
  deployment.pools[0].services[0].batch_max = {1, 4};
  testing::TestWorld world({});
  Scheduler scheduler(world, deployment, config.scheduler);
  world.attach(scheduler);
  for (const std::int32_t samples : {2, 1, 5}) {
    Request request;
    request.samples = samples;
    request.size = 3;
    request.deadline = kTimeZero + 1h;
    world.arrive(request);
  }
  world.run();
  EXPECT_TRUE(world.complaints().empty()) << world.complaints()[0];
  ASSERT_EQ(world.batches().size(), 2u);
  EXPECT_EQ(world.batches()[0].padded_size, 128);
  EXPECT_EQ(world.batches()[1].padded_size, 32);
  EXPECT_EQ(world.requests()[2].outcome->reason, RejectReason::too_large);
}

// Request 1 is late and runs only when nothing else does, so it is no reason to reject request 2, which ends at 20 ms.
TEST(Admission, DoesNotCountLateRequestsAsWork) {
  auto config = one_service_cluster("tangram", {"7g@0"}, {{"7g", {10ms}}});
  config.scheduler.policy_config.drop_unrecoverable = false;
  config.reality.run_time = [](const Batch& batch) { return Duration(batch.id.value() == 1 ? 30ms : 10ms); };
  config.scheduler.correction_weight = 0;
  SimFixture sim(config);
  sim.arrive({.at = 0ms});
  sim.arrive({.at = 1ms, .deadline = 21ms});   // Would start at 10 ms by the prediction.
  sim.arrive({.at = 2ms, .deadline = 95ms});   // Both are overtaken: the slice is free at 30 ms.
  sim.arrive({.at = 31ms, .deadline = 52ms});  // Behind request 2, which runs until 40 ms.
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {2}, {3}, {1}}));
}

TEST(Admission, RejectsRequestsBeyondTheLimit) {
  auto config = one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}});
  config.scheduler.requests_max = 2;
  SimFixture sim(config);
  for (int i = 0; i < 3; ++i) sim.arrive({.at = 0ms});
  sim.arrive({.at = 10ms});
  EXPECT_EQ(sim.run().outcomes, (std::vector{kServed, kServed, kRejected, kServed}));
  EXPECT_EQ(sim.outcome(2).reason, RejectReason::queue_full);
}

TEST(Admission, TellsTooLargeFromNoCapacity) {
  for (const bool admission : {true, false}) {
    auto config = one_service_cluster("fifs", {"1g@0", "7g@0"}, {{"1g", {10ms}}, {"7g", {10ms, 10ms}}});
    config.services = {{.name = "a", .edges = {10}}, {.name = "b", .only_on = "3g"}};
    config.scheduler.admission = admission;
    SimFixture sim(config);
    sim.arrive({.size = 11});
    sim.arrive({.samples = 3});
    sim.arrive({.service = 1});
    sim.at(1ms, [&] { EXPECT_EQ(sim.scheduler().lend_idle(PoolId(1)), SliceId(1)); });
    sim.arrive({.at = 2ms, .samples = 2});  // Only the slice that is away takes it.
    sim.at(3ms, [&] { sim.scheduler().recall(SliceId(1)); });
    sim.run();
    EXPECT_EQ(sim.outcome(0).reason, RejectReason::too_large);
    EXPECT_EQ(sim.outcome(1).reason, RejectReason::too_large);
    EXPECT_EQ(sim.outcome(2).reason, RejectReason::no_capacity);
    // Without admission control, no request is rejected that a slice can serve later.
    EXPECT_EQ(sim.outcome(3).reason, admission ? RejectReason::no_capacity : RejectReason::none);
    if (!admission) {
      EXPECT_EQ(sim.resolved_at(3), 1013ms);  // Recalled at 3 ms, back after 1 s, 10 ms of running.
    }
  }
}

// ---- Batches ----

// Sizes 3 and 5 fall into the bucket up to 8: padded to its edge, to the longest of the two, or not together at all.
TEST(Padding, FollowsTheRuleOfTheService) {
  for (const Padding padding : {Padding::bucket, Padding::longest, Padding::none}) {
    for (const auto& policy : policies()) {
      auto config = one_service_cluster(std::string(policy.name), {"7g@0"}, {{"7g", {4ms, 5ms, 6ms}}});
      config.services = {{.edges = {8, 16}, .padding = padding}};
      SimFixture sim(config);
      sim.arrive({.size = 16});
      sim.arrive({.at = 1ms, .size = 3});
      sim.arrive({.at = 1ms, .size = 5});
      const auto run = sim.run();
      const auto& batches = sim.world().batches();
      if (padding == Padding::none) {
        EXPECT_EQ(run.batches, (Batches{{0}, {1}, {2}})) << policy.name;
        EXPECT_EQ(batches[1].padded_size, 3) << policy.name;
      } else {
        EXPECT_EQ(run.batches, (Batches{{0}, {1, 2}})) << policy.name;
        EXPECT_EQ(batches[1].padded_size, padding == Padding::bucket ? 8 : 5) << policy.name;
      }
    }
  }
}

// The run time is that of the bucket: sizes up to 8 cost 8, sizes up to 16 cost 16, whatever the request holds.
TEST(Padding, IsCharged) {
  auto config = one_service_cluster("edf", {"7g@0"}, {{"7g", {1ms}}});
  config.services = {{.edges = {8, 16}}};
  config.size_factor = [](std::int64_t size) { return static_cast<double>(size); };
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .size = 1});
  sim.arrive({.at = 100ms, .size = 9});
  sim.run();
  EXPECT_EQ(sim.resolved_at(0), 8ms);
  EXPECT_EQ(sim.resolved_at(1), 116ms);
}

TEST(Batching, StopsAtTheLimitOfThePlan) {
  for (const auto& policy : policies()) {
    SimFixture sim(one_service_cluster(std::string(policy.name), {"7g@0"}, {{"7g", {4ms, 5ms, 6ms}}}));
    for (int i = 0; i < 8; ++i) sim.arrive({});
    std::size_t largest = 0;
    for (const auto& batch : sim.run().batches) largest = std::max(largest, batch.size());
    EXPECT_EQ(largest, 3u) << policy.name;
  }
}

// Reality is 1.3 times slower than the table. The newest measurement weighs a tenth, so after n batches the correction
// is 1.3 - 0.3 x 0.9^n: within 0.3 % of reality after 50.
TEST(Correction, BringsPredictionsToWhatIsMeasured) {
  auto config = one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}});
  config.reality.run_time = [](const Batch&) { return Duration(13ms); };
  SimFixture sim(config);
  for (int i = 0; i < 51; ++i) sim.arrive({.at = i * 20ms});
  sim.run();
  const auto& batches = sim.world().batches();
  EXPECT_EQ(batches[0].predicted, 10ms);
  EXPECT_NEAR(to_milliseconds(batches[1].predicted), 10.3, 1e-6);
  EXPECT_NEAR(to_milliseconds(batches[50].predicted), 13 - 3 * 0.005153775, 1e-5);  // 0.9^50
}

// The first run takes 5 s instead of 10 ms, as if the machine had stood still. It counts as ten times 10 ms: the
// correction is 1 + 0.1 x 9 = 1.9 and the p99 more than the 15 ms that there are, so requests are rejected though the
// slice is idle. Each rejection takes the correction back by a tenth of the way, until one is admitted, measured, and
// all is as before.
TEST(Correction, OfAStallLocksNobodyOutForGood) {
  for (const auto& policy : policies()) {
    auto config = one_service_cluster(std::string(policy.name), {"7g@0"}, {{"7g", {10ms}}});
    config.scheduler.stuck_min = std::chrono::hours(1);
    bool first = true;
    config.reality.run_time = [&](const Batch&) { return std::exchange(first, false) ? 5000ms : 10ms; };
    SimFixture sim(config);
    sim.arrive({.at = 0ms});
    for (int i = 0; i < 100; ++i) sim.arrive({.at = 6000ms + i * 20ms, .deadline = 6015ms + i * 20ms});
    const auto run = sim.run();
    EXPECT_EQ(run.outcomes[1], kRejected) << policy.name;
    EXPECT_EQ(std::ranges::count(run.outcomes.begin() + 40, run.outcomes.end(), kServed), 61) << policy.name;
  }
}

TEST(Correction, CanBeSwitchedOff) {
  auto config = one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}});
  config.reality.run_time = [](const Batch&) { return Duration(13ms); };
  config.scheduler.correction_weight = 0;
  SimFixture sim(config);
  for (int i = 0; i < 5; ++i) sim.arrive({.at = i * 20ms});
  sim.run();
  for (const auto& batch : sim.world().batches()) EXPECT_EQ(batch.predicted, 10ms);
}

// ---- Failures ----

TEST(Retries, RunAFailedRequestAgainUpToTheLimit) {
  for (const int retries : {0, 1, 2}) {
    for (const auto& policy : policies()) {
      auto config = one_service_cluster(std::string(policy.name), {"7g@0"}, {{"7g", {10ms}}});
      config.scheduler.retries_max = retries;
      config.reality.succeeds = [](const Batch&) { return false; };
      SimFixture sim(config);
      sim.arrive({});
      EXPECT_EQ(sim.run().batches.size(), static_cast<std::size_t>(1 + retries)) << policy.name;
      EXPECT_EQ(sim.outcome(0).kind, kFailed) << policy.name;
    }
  }
}

// The batch fails at 10 ms; a second run would end at 20 ms, past the deadline.
TEST(Retries, AreNotMadeInVain) {
  auto config = one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}});
  config.reality.succeeds = [](const Batch&) { return false; };
  SimFixture sim(config);
  sim.arrive({.deadline = 19ms});
  EXPECT_EQ(sim.run().batches.size(), 1u);
  EXPECT_EQ(sim.resolved_at(0), 10ms);
}

// Request 1, of service b, waits for the slice when the batch of request 0, of service a, fails. Request 1 is next;
// request 0 comes behind it, in a batch of its own, and request 2 of service b joins neither of the wrong service.
TEST(Retries, QueueBehindWhatAlreadyWaits) {
  auto config = one_service_cluster("elsa", {"7g@0"}, {{"7g", {5ms, 6ms, 7ms, 8ms}}});
  config.services = {{.name = "a"}, {.name = "b"}};
  config.reality.succeeds = [](const Batch& batch) { return batch.id.value() != 1; };
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .samples = 2});
  sim.arrive({.at = 1ms, .samples = 2, .service = 1});
  sim.arrive({.at = 7ms, .samples = 2, .service = 1});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {1}, {0}, {2}}));
  EXPECT_EQ(run.outcomes, std::vector<OutcomeKind>(3, kServed));
}

// Request 2 is one that the engine cannot run, whoever is beside it. The others of its batch fail with it once, run
// alone and are served; so is request 6, which comes when they wait and shares no batch with them.
TEST(Retries, RunThoseOfAFailedBatchAlone) {
  const std::vector<Duration> latency = {5ms, 6ms, 7ms, 8ms, 9ms, 10ms, 11ms, 12ms};
  for (const auto& policy : policies()) {
    for (const std::int32_t samples : {1, 2}) {
      auto config = one_service_cluster(std::string(policy.name), {"7g@0"}, {{"7g", latency}});
      config.reality.succeeds = [](const Batch& batch) {
        return std::ranges::none_of(batch.members, [](const Request* member) { return member->id.value() == 2; });
      };
      SimFixture sim(config);
      for (int i = 0; i < 6; ++i) sim.arrive({.samples = samples});
      sim.arrive({.at = 30ms, .samples = samples});
      const auto run = sim.run();
      for (std::uint64_t r = 0; r < 7; ++r) {
        EXPECT_EQ(sim.outcome(r).kind, r == 2 ? kFailed : kServed) << policy.name << ' ' << r;
      }
    }
  }
}

// Slice 0 is lost at 5 ms with request 0 on it and comes back after 5 s. Request 0 runs again on slice 1, and what was
// bound to slice 0 moves there too.
TEST(LostSlice, HandsItsRequestsToOthers) {
  for (const auto& policy : policies()) {
    SimFixture sim(one_service_cluster(std::string(policy.name), {"1g@0 + 1g@1"}, {{"1g", {10ms}}}));
    for (int i = 0; i < 6; ++i) sim.arrive({});
    sim.at(5ms, [&] { sim.world().lose(SliceId(0)); });
    const auto run = sim.run();
    EXPECT_EQ(run.outcomes, std::vector<OutcomeKind>(6, kServed)) << policy.name;
    for (std::size_t b = 0; b < run.batches.size(); ++b) {
      EXPECT_TRUE(run.starts[b] < 5ms || run.starts[b] > 5s || run.slices[b] == 1) << policy.name;
    }
    EXPECT_EQ(sim.world().restart_count(), 1u);
  }
}

// The only slice is lost. What waits stays, whatever the policy, as does what ran there, and is served when the slice
// is back at 5.005 s; requests that arrive meanwhile are rejected.
TEST(LostSlice, KeepsWhatWaitsUntilASliceIsBack) {
  for (const auto& policy : policies()) {
    SimFixture sim(one_service_cluster(std::string(policy.name), {"7g@0"}, {{"7g", {10ms}}}));
    for (int i = 0; i < 3; ++i) sim.arrive({});
    sim.at(5ms, [&] { sim.world().lose(SliceId(0)); });
    sim.arrive({.at = 1s});
    const auto run = sim.run();
    EXPECT_EQ(run.outcomes, (std::vector{kServed, kServed, kServed, kRejected})) << policy.name;
    EXPECT_EQ(sim.outcome(3).reason, RejectReason::no_capacity) << policy.name;
    EXPECT_EQ(run.starts[1], 5005ms) << policy.name;
  }
}

// A restart that fails is asked for again: the slice is back at 5 ms + 3 x 5 s.
TEST(LostSlice, IsRestartedUntilItWorks) {
  auto config = one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}});
  int left = 2;
  config.reality.restarts = [&](SliceId) { return left-- == 0; };
  SimFixture sim(config);
  sim.at(5ms, [&] { sim.world().lose(SliceId(0)); });
  sim.arrive({.at = 15s});
  sim.arrive({.at = 15006ms});
  EXPECT_EQ(sim.run().outcomes, (std::vector{kRejected, kServed}));
  EXPECT_EQ(sim.world().restart_count(), 3u);
}

// Ten times the predicted 10 ms is less than the floor of 2 s. The watch comes by every 2 s from 0 on and asks whether
// a batch has run for longer than that: the first at 2 s does not count, so the slice is restarted at 4 s, is back at
// 9 s, and runs the request again.
TEST(StuckBatch, IsGivenUp) {
  auto config = one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}});
  config.reality.run_time = [](const Batch& batch) {
    return batch.id.value() == 1 ? std::nullopt : std::optional<Duration>(10ms);
  };
  SimFixture sim(config);
  sim.arrive({.at = 0ms});
  sim.arrive({.at = 10s});
  EXPECT_EQ(sim.run().outcomes, (std::vector{kServed, kServed}));
  EXPECT_EQ(sim.resolved_at(0), 9010ms);
  EXPECT_EQ(sim.resolved_at(1), 10010ms);
}

// The slice runs request 0 for 5 s instead of 10 ms and is given up after 2 s. Requests 1 and 2 wait for it, in a
// shared queue and, where they hold two samples, in its own; each is rejected at its deadline, the later one no
// earlier.
TEST(StuckBatch, DoesNotKeepWhatWaitsBeyondItsDeadline) {
  for (const char* policy : {"tangram", "clockwork"}) {
    for (const std::int32_t samples : {1, 2}) {
      auto config = one_service_cluster(policy, {"7g@0"}, {{"7g", {10ms, 12ms}}});
      bool first = true;
      config.reality.run_time = [&](const Batch&) { return std::exchange(first, false) ? 5000ms : 10ms; };
      SimFixture sim(config);
      sim.arrive({.at = 0ms});
      sim.arrive({.at = 1ms, .deadline = 100ms, .samples = samples});
      sim.arrive({.at = 1ms, .deadline = 150ms, .samples = samples});
      const auto run = sim.run();
      EXPECT_EQ(run.outcomes, (std::vector{kServed, kRejected, kRejected})) << policy;
      EXPECT_EQ(sim.outcome(1).reason, RejectReason::too_late) << policy;
      EXPECT_EQ(sim.resolved_at(1), 100ms) << policy;
      EXPECT_EQ(sim.resolved_at(2), 150ms) << policy;
    }
  }
}

// A batch that is slow but within ten times its prediction is left alone.
TEST(StuckBatch, IsNotMistakenForASlowOne) {
  auto config = one_service_cluster("fifs", {"7g@0"}, {{"7g", {1s}}});
  config.reality.run_time = [](const Batch&) { return Duration(9900ms); };
  SimFixture sim(config);
  sim.arrive({});
  EXPECT_EQ(sim.run().outcomes, (std::vector{kServed}));
  EXPECT_EQ(sim.world().restart_count(), 0u);
}

// ---- Lending ----

// Slice 0 has been idle since 10 ms, slice 1 since 15 ms: slice 0 is lent at 20 ms and serves nothing until it is back,
// one second after it was recalled at 100 ms.
TEST(Lending, TakesTheSliceThatHasBeenIdleLongestAndBringsItBack) {
  for (const auto& policy : policies()) {
    auto config = one_service_cluster(std::string(policy.name), {"1g@0 + 1g@1"}, {{"1g", {10ms}}});
    SimFixture sim(config);
    sim.arrive({.at = 0ms});
    sim.arrive({.at = 5ms});
    std::optional<SliceId> lent;
    sim.at(20ms, [&] { lent = sim.scheduler().lend_idle(PoolId(0)); });
    for (int i = 0; i < 4; ++i) sim.arrive({.at = 30ms});
    sim.at(100ms, [&] { sim.scheduler().recall(*lent); });
    for (int i = 0; i < 4; ++i) sim.arrive({.at = 2s});
    const auto run = sim.run();
    ASSERT_TRUE(lent.has_value()) << policy.name;
    std::set<std::uint32_t> after;
    for (std::size_t b = 0; b < run.slices.size(); ++b) {
      if (run.starts[b] >= 30ms && run.starts[b] < 1100ms) {
        EXPECT_NE(run.slices[b], lent->value()) << policy.name;
      }
      if (run.starts[b] >= 2s) after.insert(run.slices[b]);
    }
    EXPECT_EQ(after.size(), 2u) << policy.name;
    EXPECT_EQ(run.outcomes, std::vector<OutcomeKind>(10, kServed)) << policy.name;
  }
}

TEST(Lending, GivesNothingWhereNothingIsIdle) {
  SimFixture sim(one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}}));
  sim.arrive({.at = 0ms});
  sim.at(1ms, [&] { EXPECT_EQ(sim.scheduler().lend_idle(PoolId(0)), std::nullopt); });
  sim.run();
}

// A slice that is recalled twice is asked back once; one that was never lent is not asked at all.
TEST(Lending, RecallsOnce) {
  SimFixture sim(one_service_cluster("fifs", {"1g@0 + 1g@1"}, {{"1g", {10ms}}}));
  sim.at(0ms, [&] { EXPECT_EQ(sim.scheduler().lend_idle(PoolId(0)), SliceId(0)); });
  for (int i = 0; i < 2; ++i) sim.at(1ms, [&] { sim.scheduler().recall(SliceId(0)); });
  sim.at(1ms, [&] { sim.scheduler().recall(SliceId(1)); });
  sim.run();
}

// ---- Changing the plan ----

// The 1g at 0 stays, the two others become one 2g at 2. The kept slice serves on while the device is cut from 10 ms,
// when the last of the leaving slices is free, until 6.01 s; nothing is lost under any policy. At 7 s two requests have
// 15 ms, enough for one run of 10 ms on the kept slice and not for two: the new one takes its share.
TEST(PlanChange, DrainsCutsAndReloadsWithoutLosingARequest) {
  for (const auto& policy : policies()) {
    auto config =
        one_service_cluster(std::string(policy.name), {"1g@0 + 1g@2 + 1g@3"}, {{"1g", {10ms}}, {"2g", {6ms}}});
    SimFixture sim(config);
    for (int i = 0; i < 12; ++i) sim.arrive({.at = 0ms});
    sim.change_plan(5ms, {"1g@0 + 2g@2"});
    for (int i = 0; i < 3; ++i) sim.arrive({.at = 1s});
    for (int i = 0; i < 2; ++i) sim.arrive({.at = 7s, .deadline = 7015ms});
    const auto run = sim.run();
    EXPECT_EQ(run.outcomes, std::vector<OutcomeKind>(17, kServed)) << policy.name;
    EXPECT_EQ(sim.world().reshape_count(), 1u) << policy.name;
    std::set<std::uint32_t> after;
    for (std::size_t b = 0; b < run.slices.size(); ++b) {
      if (run.starts[b] > 5ms && run.starts[b] < 6010ms) {
        EXPECT_EQ(run.slices[b], 0u) << policy.name;
      }
      if (run.starts[b] >= 7s) after.insert(run.slices[b]);
    }
    EXPECT_TRUE(after.contains(3)) << policy.name;  // The new slice has the next id.
    EXPECT_FALSE(after.contains(1) || after.contains(2)) << policy.name;
  }
}

// The 1g at 1 leaves with the plan at 5 ms while its batch has ten minutes to go. After 50 ms it is stopped, which
// takes 10 ms, and its request runs on the slice that stays, from 4 s on, when the first batch there has ended. It did
// nothing wrong: no attempt is counted, of which there is none to lose.
TEST(PlanChange, StopsABatchThatWouldHoldUpTheMove) {
  auto config = one_service_cluster("fifs", {"1g@0 + 1g@1"}, {{"1g", {4s}}, {"2g", {6ms}}});
  config.scheduler.drain_max = 50ms;
  config.scheduler.retries_max = 0;
  config.reality.run_time = [](const Batch& batch) {
    return batch.slice == SliceId(1) ? std::optional<Duration>(10min) : batch.predicted;
  };
  SimFixture sim(config);
  sim.arrive({.at = 0ms});
  sim.arrive({.at = 0ms});
  sim.change_plan(5ms, {"1g@0 + 2g@2"});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {1}, {1}}));
  EXPECT_EQ(run.slices, (std::vector<std::uint32_t>{0, 1, 0}));
  EXPECT_EQ(run.starts[2], 4s);
  EXPECT_EQ(run.outcomes, (std::vector{kServed, kServed}));
  EXPECT_EQ(std::ranges::count(run.log, "0.055000 stop slice 1"), 1);
  EXPECT_EQ(
      std::ranges::count_if(run.log, [](const auto& line) { return line.starts_with("0.065000 reshape device 0"); }),
      1);
}

// Its request has 300 ms, and the batch takes ten minutes. The scheduler looks at its slices every two seconds and
// stops it; the request is rejected as too late, and the next one is served at once. A policy that answers late
// requests lets the batch run until it counts as stuck.
TEST(Stopping, EndsABatchOfWhichNoRequestCanBeAnsweredInTime) {
  for (const std::string policy : {"tangram", "fifs"}) {
    auto config = one_service_cluster(policy, {"1g@0"}, {{"1g", {200ms}}});
    config.scheduler.stuck_factor = 30;  // Stuck after 6 s.
    config.reality.run_time = [](const Batch& batch) {
      return batch.members.front()->id == RequestId(0) ? std::optional<Duration>(10min) : batch.predicted;
    };
    SimFixture sim(config);
    sim.arrive({.at = 0ms, .deadline = 300ms});
    sim.arrive({.at = 3s, .deadline = 3500ms});
    const auto run = sim.run();
    const bool gives_up = policy == "tangram";
    EXPECT_EQ(run.outcomes[0], gives_up ? kRejected : OutcomeKind::failed) << policy;
    EXPECT_EQ(run.outcomes[1] == kServed, gives_up) << policy;
    EXPECT_EQ(sim.resolved_at(0) == 2010ms, gives_up) << policy;
    if (gives_up) {
      EXPECT_EQ(sim.outcome(0).reason, RejectReason::too_late);
    }
  }
}

// Devices move one after the other: while the first is cut the second serves.
TEST(PlanChange, MovesOneDeviceAtATime) {
  SimFixture sim(one_service_cluster("fifs", {"7g@0", "7g@0"}, {{"7g", {10ms}}, {"3g", {20ms}}}));
  sim.change_plan(0ms, {"3g@0 + 3g@4", "3g@0 + 3g@4"});
  sim.arrive({.at = 1s});
  sim.arrive({.at = 7s});
  const auto run = sim.run();
  EXPECT_EQ(run.slices, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(sim.world().reshape_count(), 2u);
}

// The new plan cuts a slice that serves nothing, to be lent. No slice leaves or joins; the device is cut all the same.
TEST(PlanChange, CutsSlicesThatServeNothing) {
  SimFixture sim(one_service_cluster("fifs", {"1g@0"}, {{"1g", {10ms}}}));
  sim.change_plan(0ms, {"1g@0 + 3g@4"});
  sim.arrive({.at = 1s});
  EXPECT_EQ(sim.run().outcomes, (std::vector{kServed}));
  EXPECT_EQ(sim.world().reshape_count(), 1u);
}

TEST(PlanChange, TouchesNothingIfThePlanIsTheSame) {
  SimFixture sim(one_service_cluster("fifs", {"1g@0 + 1g@1"}, {{"1g", {10ms}}}));
  sim.change_plan(0ms, {"1g@0 + 1g@1"});
  sim.arrive({.at = 1ms});
  sim.run();
  EXPECT_EQ(sim.world().reshape_count(), 0u);
}

// Two attempts fail, the third works: the new slice is there after 3 x 6 s.
TEST(PlanChange, RepeatsACutThatFailed) {
  auto config = one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}, {"3g", {20ms}}});
  int left = 2;
  config.reality.reshapes = [&](DeviceId) { return left-- == 0; };
  SimFixture sim(config);
  sim.change_plan(0ms, {"3g@0"});
  sim.arrive({.at = 17s});
  sim.arrive({.at = 19s});
  EXPECT_EQ(sim.run().outcomes, (std::vector{kRejected, kServed}));
  EXPECT_EQ(sim.world().reshape_count(), 3u);
}

// Requests of two samples wait for the slice that is to come, under every policy. It never does: after three attempts
// the device is given up, and they are rejected rather than kept for ever. Single samples are served by device 0.
TEST(PlanChange, GivesUpADeviceAndRejectsRequestsThatOnlyItCouldServe) {
  for (const auto& policy : policies()) {
    auto config =
        one_service_cluster(std::string(policy.name), {"1g@0", "7g@0"}, {{"1g", {10ms}}, {"7g", {10ms, 10ms}}});
    config.latency["3g"] = {10ms, 10ms};
    config.scheduler.policy_config.drop_unrecoverable = false;
    config.scheduler.admission = false;
    config.reality.reshapes = [](DeviceId) { return false; };
    SimFixture sim(config);
    sim.change_plan(0ms, {"1g@0", "3g@0"});
    sim.arrive({.at = 1s, .samples = 2});
    sim.arrive({.at = 1s});
    const auto run = sim.run();
    EXPECT_EQ(run.outcomes, (std::vector{kRejected, kServed})) << policy.name;
    EXPECT_EQ(sim.outcome(0).reason, RejectReason::no_capacity) << policy.name;
    EXPECT_EQ(sim.resolved_at(0), 18s) << policy.name;
    EXPECT_EQ(sim.world().reshape_count(), 3u) << policy.name;
  }
}

// The running batch belongs to a bucket that the new plan does not have, its service even has none at all; the batch
// still ends, what waits is put into the new buckets, and a request that no bucket takes any more is rejected.
TEST(PlanChange, MovesWaitingRequestsToOtherBuckets) {
  for (const auto& policy : policies()) {
    auto config = one_service_cluster(std::string(policy.name), {"1g@0 + 1g@1"}, {{"1g", {10ms}}});
    config.services = {{.name = "a", .edges = {4, 8, 16}}, {.name = "b", .edges = {5}}};
    SimFixture sim(config);
    auto next = config;
    next.services = {{.name = "a", .edges = {6, 12}}, {.name = "b", .edges = {5}, .only_on = "7g"}};
    sim.arrive({.size = 16});
    sim.arrive({.size = 5, .service = 1});
    sim.arrive({.size = 3});
    sim.arrive({.size = 11});
    sim.arrive({.size = 13});
    sim.arrive({.size = 5, .service = 1});
    sim.change_deployment(5ms, deployment_of(next, {"1g@0 + 1g@1"}));
    sim.arrive({.at = 7s, .size = 12});
    const auto run = sim.run();
    const std::vector expected{kServed, kServed, kServed, kServed, kRejected, kRejected, kServed};
    EXPECT_EQ(run.outcomes, expected) << policy.name;
    EXPECT_EQ(sim.world().batches().back().padded_size, 12) << policy.name;
  }
}

// A batch of a bucket that is gone may also fail: its member runs again in the bucket that takes it now.
TEST(PlanChange, RunsAFailedRequestAgainInItsNewBucket) {
  auto config = one_service_cluster("fifs", {"1g@0 + 1g@1"}, {{"1g", {10ms}}});
  config.services = {{.name = "a", .edges = {16}}};
  config.reality.succeeds = [](const Batch& batch) { return batch.id.value() > 2; };
  SimFixture sim(config);
  auto next = config;
  next.services[0].edges = {4, 8};
  sim.arrive({.size = 3});
  sim.arrive({.size = 12});
  sim.change_deployment(5ms, deployment_of(next, {"1g@0 + 1g@1", "1g@0"}));
  const auto run = sim.run();
  EXPECT_EQ(run.outcomes[1], kFailed);
}

// A batch on a kept slice whose bucket exists in both plans is measured against its own prediction, 10 ms: reality is
// exact, so the correction stays at 1 and the next batch is predicted exactly.
TEST(PlanChange, LearnsNothingWrongFromABatchThatItOvertook) {
  auto config = one_service_cluster("fifs", {"1g@0 + 1g@1"}, {{"1g", {10ms}}});
  config.services = {{.edges = {8}}};
  config.size_factor = [](std::int64_t size) { return static_cast<double>(size) / 8; };
  config.scheduler.correction_weight = 0.5;
  SimFixture sim(config);
  auto next = config;
  next.services[0].edges = {8, 16};
  sim.arrive({.size = 8});
  sim.change_deployment(5ms, deployment_of(next, {"1g@0 + 1g@1"}));
  sim.arrive({.at = 20s, .size = 8});
  sim.arrive({.at = 21s, .size = 16});
  sim.run();
  const auto& batches = sim.world().batches();
  EXPECT_EQ(batches[1].predicted, 10ms);
  EXPECT_EQ(batches[2].predicted, 20ms);
}

// Request 1 waits for the slice and is bound to it; the plan changes and keeps the slice. It is free at 20 ms as
// before: request 2, which must end by 30 ms, has its chance.
TEST(PlanChange, CountsBoundWorkOnce) {
  auto config = one_service_cluster("elsa", {"1g@0", "7g@0"}, {{"1g", {10ms}}, {"7g", {10ms}}});
  config.services = {{.name = "a", .only_on = "1g"}, {.name = "b", .only_on = "7g"}};
  config.scheduler.policy_config.merge = false;
  SimFixture sim(config);
  sim.arrive({.at = 0ms});
  sim.arrive({.at = 0ms});
  auto next = config;
  next.latency["3g"] = {10ms};
  next.services[1].only_on = "3g";
  sim.change_deployment(5ms, deployment_of(next, {"1g@0", "3g@0"}));
  sim.at(6ms, [&] { EXPECT_EQ(sim.scheduler().state().slices[0].free_at, kTimeZero + 20ms); });
  sim.run();
}

// Slice 1 has been idle since 10 ms, slice 0 since 30 ms. A change of another device forgets neither.
TEST(PlanChange, RemembersWhoHasBeenIdleLongest) {
  SimFixture sim(one_service_cluster("fifs", {"1g@0 + 1g@1", "7g@0"}, {{"1g", {20ms, 30ms}}}));
  sim.arrive({.at = 0ms, .samples = 2});
  sim.arrive({.at = 0ms});
  sim.change_plan(40ms, {"1g@0 + 1g@1", "3g@0"});
  sim.arrive({.at = 50ms});
  EXPECT_EQ(sim.run().slices, (std::vector<std::uint32_t>{0, 1, 1}));
}

// Fifty changes back and forth leave the pools of two plans at most, not of fifty.
TEST(PlanChange, ForgetsThePoolsOfPlansThatAreGone) {
  SimFixture sim(one_service_cluster("tangram", {"7g@0"}, {{"7g", {10ms}}, {"3g", {20ms}}}));
  for (int i = 0; i < 50; ++i) {
    sim.change_plan(i * 10s, {i % 2 == 0 ? "3g@0 + 3g@4" : "7g@0"});
    sim.arrive({.at = i * 10s + 8s});
  }
  EXPECT_EQ(sim.run().outcomes, std::vector<OutcomeKind>(50, kServed));
  EXPECT_LE(sim.scheduler().state().deployment.pools.size(), 2u);
  EXPECT_LE(sim.scheduler().state().deployment.services[0].pools.size(), 2u);
}

// A lent slice that the new plan does not keep is recalled before its device is cut.
TEST(PlanChange, RecallsLentSlicesThatLeave) {
  SimFixture sim(one_service_cluster("fifs", {"1g@0 + 1g@1"}, {{"1g", {10ms}}, {"2g", {6ms}}}));
  sim.at(0ms, [&] { EXPECT_EQ(sim.scheduler().lend_idle(PoolId(0)), SliceId(0)); });
  sim.change_plan(1ms, {"2g@0"});
  sim.arrive({.at = 8s});
  EXPECT_EQ(sim.run().outcomes, (std::vector{kServed}));
}

// ---- Answers ----

// The end of a batch and its deadline at the same instant: in time.
TEST(Outcome, IsServedAtTheInstantOfTheDeadline) {
  SimFixture sim(one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}}));
  sim.arrive({.deadline = 10ms});
  EXPECT_EQ(sim.run().outcomes[0], kServed);
  auto config = one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}});
  config.reality.run_time = [](const Batch&) { return Duration(10ms + 1ns); };
  SimFixture late(config);
  late.arrive({.deadline = 10ms});
  EXPECT_EQ(late.run().outcomes[0], OutcomeKind::late);
}

// ---- Callers that go ----

// Each run takes 10 ms. The caller of request 1 goes at 5 ms: request 2 starts in its place.
TEST(Abandoned, LeavesTheQueueAtOnce) {
  SimFixture sim(one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}}));
  for (int i = 0; i < 3; ++i) sim.arrive({.at = 0ms});
  sim.at(5ms, [&] { sim.world().abandon(1); });
  const auto run = sim.run();
  EXPECT_EQ(run.outcomes, (std::vector{kServed, kAbandoned, kServed}));
  EXPECT_EQ(run.batches, (Batches{{0}, {2}}));
  EXPECT_EQ(sim.resolved_at(1), 5ms);
  EXPECT_EQ(run.starts[1], 10ms);
}

// The policy binds requests to slices; the caller of one of them goes before its batch starts at 4 ms.
TEST(Abandoned, LeavesTheQueueOfASlice) {
  auto config = one_service_cluster("tangram", {"7g@0"}, {{"7g", {4ms, 7ms}}});
  config.scheduler.policy_config.bursts_expected = true;
  SimFixture sim(std::move(config));
  for (int i = 0; i < 4; ++i) sim.arrive({.at = 0ms});
  sim.at(1ms, [&] { sim.world().abandon(1); });
  const auto run = sim.run();
  EXPECT_EQ(run.outcomes, (std::vector{kServed, kAbandoned, kServed, kServed}));
  EXPECT_EQ(sim.resolved_at(1), 1ms);
  for (const auto& batch : run.batches) EXPECT_EQ(std::ranges::count(batch, 1u), 0);
}

// Requests 1 and 2 run together from 10 ms to 17 ms. With one caller left the batch runs on; its other member is
// resolved when it ends.
TEST(Abandoned, RunsOnWhileSomebodyWaits) {
  auto config = one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms, 17ms}}});
  config.reality.stop_time = 0ms;
  SimFixture sim(std::move(config));
  for (int i = 0; i < 3; ++i) sim.arrive({.at = 0ms});
  sim.at(12ms, [&] { sim.world().abandon(1); });
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {1, 2}}));
  EXPECT_EQ(run.outcomes, (std::vector{kServed, kAbandoned, kServed}));
  EXPECT_EQ(sim.resolved_at(1), 27ms);
  EXPECT_EQ(sim.resolved_at(2), 27ms);
}

// The only member of the first batch leaves at 3 ms, and the engine can stop: the next request starts then.
TEST(Abandoned, StopsABatchThatNobodyWaitsFor) {
  for (const bool stops : {true, false}) {
    auto config = one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}});
    config.reality.stops = stops;
    config.reality.stop_time = 0ms;
    SimFixture sim(std::move(config));
    for (int i = 0; i < 2; ++i) sim.arrive({.at = 0ms});
    sim.at(3ms, [&] { sim.world().abandon(0); });
    const auto run = sim.run();
    EXPECT_EQ(run.outcomes, (std::vector{kAbandoned, kServed}));
    EXPECT_EQ(run.starts[1], stops ? 3ms : 10ms);
    EXPECT_TRUE(sim.world().batches()[0].stop_asked);
  }
}

// The slice of request 0 breaks at 4 ms; nobody waits for it, so it does not run again.
TEST(Abandoned, DoesNotRunAgainAfterALoss) {
  SimFixture sim(one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}}));
  sim.arrive({.at = 0ms});
  sim.at(3ms, [&] { sim.world().abandon(0); });
  sim.at(4ms, [&] { sim.world().lose(SliceId(0)); });
  const auto run = sim.run();
  EXPECT_EQ(run.outcomes, std::vector{kAbandoned});
  EXPECT_EQ(run.batches.size(), 1u);
  EXPECT_EQ(sim.resolved_at(0), 4ms);
}

// A message about a request that has ended changes nothing, also where its record holds another one by then.
TEST(Abandoned, IsIgnoredAfterTheEnd) {
  SimFixture sim(one_service_cluster("fifs", {"7g@0"}, {{"7g", {10ms}}}));
  sim.arrive({.at = 0ms});
  sim.arrive({.at = 11ms});
  sim.at(12ms, [&] { sim.world().abandon(0); });
  EXPECT_EQ(sim.run().outcomes, (std::vector{kServed, kServed}));
}

}  // namespace
}  // namespace tangram::sched

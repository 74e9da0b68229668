// fifs, edf, clockwork, least_work and round_robin.
#include <gtest/gtest.h>

#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;
using testing::Batches;
using testing::FixtureConfig;
using testing::SimFixture;

FixtureConfig baseline_cluster(std::string policy, std::vector<std::string> layouts, testing::LatencyLists latency) {
  FixtureConfig config;
  config.policy = std::move(policy);
  config.layouts = std::move(layouts);
  config.latency = std::move(latency);
  config.scheduler.admission = false;
  return config;
}

// ---- all that batch from shared queues ----

class SharedQueues : public ::testing::TestWithParam<std::string> {};

// n samples take n + 3 ms. Requests of two and of three samples wait until 4 ms; together they take 8 ms. Request 1 has
// time for that in the first case; in the second it must end by 10 ms, which it does alone, at 9 ms.
TEST_P(SharedQueues, FillBatchesAcrossNumbersOfSamples) {
  for (const auto& [deadline, batches] : {std::pair{20ms, Batches{{0}, {1, 2}}}, {10ms, Batches{{0}, {1}, {2}}}}) {
    SimFixture sim(baseline_cluster(GetParam(), {"7g@0"}, {{"7g", {4ms, 5ms, 6ms, 7ms, 8ms}}}));
    sim.arrive({.at = 0ms, .deadline = 90ms});
    sim.arrive({.at = 1ms, .deadline = deadline, .samples = 2});
    sim.arrive({.at = 2ms, .deadline = 90ms, .samples = 3});
    EXPECT_EQ(sim.run().batches, batches);
  }
}

INSTANTIATE_TEST_SUITE_P(Baselines, SharedQueues, ::testing::Values("fifs", "edf", "clockwork"));

// ---- fifs ----

// Slice 0 is busy until 30 ms with two samples, slice 1 until 21 ms: at 40 ms slice 1 has been idle for longer.
TEST(Fifs, TakesTheSliceThatHasBeenIdleLongest) {
  SimFixture sim(baseline_cluster("fifs", {"1g@0 + 1g@1"}, {{"1g", {20ms, 30ms}}}));
  sim.arrive({.at = 0ms, .samples = 2});
  sim.arrive({.at = 1ms});
  sim.arrive({.at = 40ms});
  EXPECT_EQ(sim.run().slices, (std::vector<std::uint32_t>{0, 1, 1}));
}

// The small slice is as idle as the large one and stands first, so it gets a request that only the large one ends in
// time: 20 ms against a deadline at 10 ms.
TEST(Fifs, IsBlindToDeadlines) {
  SimFixture sim(baseline_cluster("fifs", {"1g@0", "7g@0"}, {{"1g", {20ms}}, {"7g", {5ms}}}));
  sim.arrive({.deadline = 10ms});
  const auto run = sim.run();
  EXPECT_EQ(run.slices[0], 0u);
  EXPECT_EQ(run.outcomes[0], OutcomeKind::late);
}

// Request 1 came before request 2, which belongs to another service and is more urgent.
TEST(Fifs, ServesServicesInOrderOfArrival) {
  auto config = baseline_cluster("fifs", {"7g@0"}, {{"7g", {4ms}}});
  config.services = {{.name = "a"}, {.name = "b"}};
  SimFixture sim(config);
  sim.arrive({.at = 0ms});
  sim.arrive({.at = 1ms, .deadline = 90ms});
  sim.arrive({.at = 2ms, .deadline = 50ms, .service = 1});
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {1}, {2}}));
}

// ---- edf ----

// Request 0 holds the slice until 4 ms. A batch of one then ends at 8 ms, a batch of two at 11 ms, and request 1 must
// end by 10 ms: the two cannot share a batch.
TEST(Edf, KeepsRequestsApartWhenTogetherTheyWouldMissTheFirstDeadline) {
  SimFixture sim(baseline_cluster("edf", {"7g@0"}, {{"7g", {4ms, 7ms}}}));
  sim.arrive({.at = 0ms, .deadline = 10ms});
  sim.arrive({.at = 1ms, .deadline = 10ms});
  sim.arrive({.at = 1ms, .deadline = 30ms});
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {1}, {2}}));
}

// The same with a first deadline at 11 ms, which a batch of two just keeps; the p99 decides, not the mean.
TEST(Edf, GrowsABatchWhileTheFirstDeadlineHolds) {
  for (const double p99_factor : {1.0, 1.01}) {
    auto config = baseline_cluster("edf", {"7g@0"}, {{"7g", {4ms, 7ms}}});
    config.p99_factor = p99_factor;
    SimFixture sim(config);
    sim.arrive({.at = 0ms, .deadline = 10ms});
    sim.arrive({.at = 1ms, .deadline = 11ms});
    sim.arrive({.at = 1ms, .deadline = 30ms});
    EXPECT_EQ(sim.run().batches, (p99_factor == 1 ? Batches{{0}, {1, 2}} : Batches{{0}, {1}, {2}}));
  }
}

TEST(Edf, TakesTheEarliestDeadlineOfAllServices) {
  auto config = baseline_cluster("edf", {"7g@0"}, {{"7g", {4ms}}});
  config.services = {{.name = "a"}, {.name = "b"}};
  SimFixture sim(config);
  sim.arrive({.at = 0ms});
  sim.arrive({.at = 1ms, .deadline = 90ms});
  sim.arrive({.at = 2ms, .deadline = 50ms, .service = 1});
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {2}, {1}}));
}

TEST(Edf, TakesTheLargestIdleSlice) {
  SimFixture sim(baseline_cluster("edf", {"1g@0", "7g@0"}, {{"1g", {20ms}}, {"7g", {5ms}}}));
  sim.arrive({});
  sim.arrive({});
  EXPECT_EQ(sim.run().slices, (std::vector<std::uint32_t>{1, 0}));
}

// ---- clockwork ----

// Request 1 must start by 9 - 5 = 4 ms and the slice is busy until 5 ms: it is dropped then, and request 2 runs.
TEST(Clockwork, DropsWhatHasMissedItsWindow) {
  SimFixture sim(baseline_cluster("clockwork", {"7g@0"}, {{"7g", {5ms}}}));
  sim.arrive({.at = 0ms, .deadline = 5ms});
  sim.arrive({.at = 1ms, .deadline = 9ms});
  sim.arrive({.at = 1ms, .deadline = 10ms});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {2}}));
  EXPECT_EQ(sim.outcome(1).reason, RejectReason::too_late);
  EXPECT_EQ(sim.resolved_at(1), 5ms);
}

// No request may be rejected: the same request runs last and late.
TEST(Clockwork, RunsItLateInsteadWhenItMayNotDrop) {
  auto config = baseline_cluster("clockwork", {"7g@0"}, {{"7g", {5ms}}});
  config.scheduler.policy_config.drop_unrecoverable = false;
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 5ms});
  sim.arrive({.at = 1ms, .deadline = 9ms});
  sim.arrive({.at = 1ms, .deadline = 10ms});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {2}, {1}}));
  EXPECT_EQ(run.outcomes[1], OutcomeKind::late);
}

// Request 1 must start by 30 - 4 = 26 ms, request 2, which holds two samples, by 32 - 7 = 25 ms.
TEST(Clockwork, TakesTheWindowThatClosesFirst) {
  SimFixture sim(baseline_cluster("clockwork", {"7g@0"}, {{"7g", {4ms, 7ms}}}));
  sim.arrive({.at = 0ms});
  sim.arrive({.at = 1ms, .deadline = 30ms});
  sim.arrive({.at = 2ms, .deadline = 32ms, .samples = 2});
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {2}, {1}}));
}

// Late requests of both services wait. The small slice, idle at 10 ms, takes no two samples, so it runs the late
// request of service a although that of service b has waited longer; the large one is busy until 100 ms.
TEST(Clockwork, RunsTheLateRequestThatTheSliceTakes) {
  auto config = baseline_cluster("clockwork", {"1g@0", "7g@0"}, {{"1g", {10ms}}, {"7g", {100ms, 150ms}}});
  config.services = {{.name = "a"}, {.name = "b"}};
  config.scheduler.policy_config.drop_unrecoverable = false;
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 200ms});
  sim.arrive({.at = 0ms, .deadline = 200ms});
  sim.arrive({.at = 1ms, .deadline = 2ms, .samples = 2, .service = 1});
  sim.arrive({.at = 1ms, .deadline = 2ms});
  const auto run = sim.run();
  ASSERT_EQ(run.batches, (Batches{{0}, {1}, {3}, {2}}));
  EXPECT_EQ(run.starts[2], 10ms);
}

// ---- least_work ----

// The large slice ends requests at 5, 10 and 15 ms. A fourth would end there at 20 ms, as on the small one.
TEST(LeastWork, GoesWhereItEndsFirst) {
  SimFixture sim(baseline_cluster("least_work", {"1g@0", "7g@0"}, {{"1g", {20ms}}, {"7g", {5ms}}}));
  for (int i = 0; i < 4; ++i) sim.arrive({});
  sim.run();
  for (const auto& batch : sim.world().batches()) {
    EXPECT_EQ(batch.slice.value(), batch.members[0] == 3 ? 0u : 1u) << batch.members[0];
  }
}

// ---- round_robin ----

TEST(RoundRobin, DealsRequestsToSlicesInTurn) {
  auto config = baseline_cluster("round_robin", {"1g@0 + 1g@1 + 1g@2"}, {{"1g", {20ms}}});
  config.scheduler.policy_config.merge = false;
  SimFixture sim(config);
  for (int i = 0; i < 6; ++i) sim.arrive({});
  sim.run();
  for (const auto& batch : sim.world().batches()) {
    EXPECT_EQ(batch.slice.value(), (batch.members[0] + 1) % 3) << batch.members[0];
  }
}

// Slice 0 takes one sample only, so both requests of two samples go to slice 1.
TEST(RoundRobin, PassesOverSlicesThatDoNotTakeTheRequest) {
  SimFixture sim(baseline_cluster("round_robin", {"1g@0", "7g@0"}, {{"1g", {20ms}}, {"7g", {4ms, 5ms}}}));
  sim.arrive({.samples = 2});
  sim.arrive({.samples = 2});
  EXPECT_EQ(sim.run().slices, (std::vector<std::uint32_t>{1, 1}));
}

}  // namespace
}  // namespace tangram::sched

#include <gtest/gtest.h>

#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;
using testing::Batches;
using testing::FixtureConfig;
using testing::SimFixture;

// A small and a large slice: slice 0 takes 20 ms for a request, slice 1 takes 5 ms.
FixtureConfig elsa_pair() {
  FixtureConfig config;
  config.policy = "elsa";
  config.layouts = {"1g@0", "7g@0"};
  config.latency = {{"1g", {20ms}}, {"7g", {5ms}}};
  config.scheduler.admission = false;
  return config;
}

// Request 0 ends on the small slice at 20 ms. Request 1 would end there at 40 ms and must end by 25 ms, so it goes to
// the large one; request 2 may take until 45 ms and waits for the small one.
TEST(Elsa, BindsToTheSmallestSliceThatStillHasSlack) {
  SimFixture sim(elsa_pair());
  sim.arrive({.at = 0ms, .deadline = 25ms});
  sim.arrive({.at = 0ms, .deadline = 25ms});
  sim.arrive({.at = 0ms, .deadline = 45ms});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {1}, {2}}));
  EXPECT_EQ(run.slices, (std::vector<std::uint32_t>{0, 1, 0}));
  EXPECT_EQ(run.starts[2], 20ms);
}

// 20 ms of running leave no slack at all to a deadline in 20 ms; one nanosecond more leaves some.
TEST(Elsa, AsksForSlackThatIsPositive) {
  SimFixture none(elsa_pair());
  none.arrive({.deadline = 20ms});
  EXPECT_EQ(none.run().slices[0], 1u);
  SimFixture some(elsa_pair());
  some.arrive({.deadline = 20ms + 1ns});
  EXPECT_EQ(some.run().slices[0], 0u);
}

// Nobody can be in time. The large slice ends requests at 5, 10 and 15 ms; a fourth would end there at 20 ms, no
// earlier than on the small slice, which is tried first.
TEST(Elsa, GoesWhereItEndsFirstWhenNoSliceHasSlack) {
  SimFixture sim(elsa_pair());
  for (int i = 0; i < 4; ++i) sim.arrive({.deadline = 3ms});
  const auto run = sim.run();
  EXPECT_EQ(sim.world().batches().size(), 4u);
  for (const auto& batch : sim.world().batches()) {
    EXPECT_EQ(batch.slice.value(), batch.members[0] == 3 ? 0u : 1u) << batch.members[0];
  }
  EXPECT_EQ(run.outcomes, std::vector<OutcomeKind>(4, OutcomeKind::late));
}

// alpha = 2 counts the 20 ms of the small slice as 40 ms, beyond the deadline at 25 ms; the large one's 5 ms as 10 ms.
TEST(Elsa, AlphaWeighsWaitingAndRunning) {
  auto config = elsa_pair();
  config.scheduler.policy_config.elsa_alpha = 2;
  SimFixture sim(config);
  sim.arrive({.deadline = 25ms});
  EXPECT_EQ(sim.run().slices[0], 1u);
}

// beta = 0.5 counts the 20 ms of the small slice as 10 ms, within the deadline at 15 ms. It is late, as it had to be.
TEST(Elsa, BetaWeighsRunningAlone) {
  auto config = elsa_pair();
  config.scheduler.policy_config.elsa_beta = 0.5;
  SimFixture sim(config);
  sim.arrive({.deadline = 15ms});
  const auto run = sim.run();
  EXPECT_EQ(run.slices[0], 0u);
  EXPECT_EQ(run.outcomes[0], OutcomeKind::late);
}

// The first batch was to end at 20 ms and ends at 5 ms. At 6 ms the small slice is idle: a request that must end by
// 27 ms has 21 ms left, and running takes 20 of them. The end that was once predicted does not count any more.
TEST(Elsa, CountsNoWaitingForASliceThatFellIdleEarly) {
  auto config = elsa_pair();
  config.scheduler.correction_weight = 0;
  config.reality.run_time = [](const Batch&) { return Duration(5ms); };
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 25ms});
  sim.arrive({.at = 6ms, .deadline = 27ms});
  EXPECT_EQ(sim.run().slices, (std::vector<std::uint32_t>{0, 0}));
}

// Requests that wait for one slice share a batch if they may: the two behind request 0 run in 7 ms together.
TEST(Elsa, MergesWhatWaitsForOneSlice) {
  auto config = elsa_pair();
  config.layouts = {"7g@0"};
  config.latency = {{"7g", {4ms, 7ms}}};
  for (const bool merge : {true, false}) {
    config.scheduler.policy_config.merge = merge;
    SimFixture sim(config);
    for (int i = 0; i < 3; ++i) sim.arrive({});
    EXPECT_EQ(sim.run().batches, (merge ? Batches{{0}, {1, 2}} : Batches{{0}, {1}, {2}}));
  }
}

}  // namespace
}  // namespace tangram::sched

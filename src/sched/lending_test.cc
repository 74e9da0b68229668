#include "sched/lending.h"

#include <gtest/gtest.h>

#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;
using testing::FixtureConfig;
using testing::SimFixture;

constexpr LendingConfig kConfig{
    .window = 2s, .window_burst = 1s, .guard = 1s, .lead = 0s, .deviations = 0, .headroom = 1};

FixtureConfig two_slices() {
  FixtureConfig config;
  config.policy = "fifs";
  config.layouts = {"1g@0 + 1g@1"};
  config.latency = {{"1g", {10ms}}};
  return config;
}

// One slice up to three requests a second, two above.
std::vector<ServiceNeeds> needs_of_two() { return {{{{SliceId(0)}, {SliceId(1)}}, {{3, 1}}}}; }

// Ten requests in the first second are five a second over the window of two: both slices are needed. By 4 s the window
// is empty, and since 3 s, the last tick that needed both, the guard of a second has passed.
TEST(LendingNeeds, FollowTheRateAndAreGuardedForAWhile) {
  SimFixture sim(two_slices());
  Lending lending(sim.scheduler(), kConfig, needs_of_two());
  for (int i = 0; i < 10; ++i) {
    sim.arrive({.at = 50ms * i});
    sim.at(50ms * i, [&] { lending.on_arrival(ServiceId(0)); });
  }
  std::vector<bool> may;
  for (int second = 1; second <= 5; ++second) {
    sim.at(1s * second, [&, second] {
      lending.on_tick(TimePoint(1s * second));
      may.push_back(lending.may_lend(1));
      EXPECT_FALSE(lending.may_lend(0));  // At least one is kept.
    });
  }
  sim.run();
  EXPECT_EQ(may.size(), 5U);
  EXPECT_FALSE(may[1]);
  EXPECT_TRUE(may[4]);
}

TEST(LendingNeeds, RecallASliceThatIsNeededAgain) {
  SimFixture sim(two_slices());
  Lending lending(sim.scheduler(), kConfig, needs_of_two());
  const auto tick = [&](int second) { lending.on_tick(TimePoint(1s * second)); };
  for (int second = 1; second <= 12; ++second) {
    sim.at(1s * second, [&, second] {
      if (second >= 8) {
        for (int i = 0; i < 10; ++i) lending.on_arrival(ServiceId(0));
      }
      tick(second);
      if (second == 5) {
        EXPECT_EQ(lending.state(1), LeaseState::asleep);
        EXPECT_TRUE(lending.lend(1));
        EXPECT_EQ(lending.state(1), LeaseState::lent);
      }
      // Ten in the last second are five a second over the window.
      if (second == 8) {
        EXPECT_EQ(lending.state(1), LeaseState::recalling);
      }
      if (second == 12) {
        EXPECT_EQ(lending.state(1), LeaseState::guarded);
      }
    });
  }
  sim.run();
}

// The rate says that one slice is enough, but of eleven requests ten are rejected: both are wanted back.
TEST(LendingNeeds, RecallWhenRequestsAreLost) {
  SimFixture sim(two_slices());
  Lending lending(sim.scheduler(), kConfig, needs_of_two());
  for (int i = 0; i < 11; ++i) sim.arrive({.at = 5500ms, .deadline = 5511ms});  // A run takes 10 ms.
  for (int second = 1; second <= 6; ++second) {
    sim.at(1s * second, [&, second] {
      lending.on_tick(TimePoint(1s * second));
      if (second == 5) {
        EXPECT_TRUE(lending.lend(1));
      }
      if (second == 6) {
        EXPECT_EQ(lending.state(1), LeaseState::recalling);
      }
    });
  }
  sim.run();
}

// The same, and then silence. The share of lost requests does not change any more, so without forgiveness the service
// keeps its slices for ever. With it, both the window of two seconds and the guard of one are over by 10 s.
TEST(LendingNeeds, AreForgottenInSilenceIfWanted) {
  for (const bool forgives : {false, true}) {
    SimFixture sim(two_slices());
    LendingConfig config = kConfig;
    config.forgives_in_silence = forgives;
    Lending lending(sim.scheduler(), config, needs_of_two());
    for (int i = 0; i < 11; ++i) sim.arrive({.at = 5500ms, .deadline = 5511ms});
    sim.at(5500ms, [&] {
      for (int i = 0; i < 11; ++i) lending.on_arrival(ServiceId(0));
    });
    for (int second = 1; second <= 12; ++second)
      sim.at(1s * second, [&, second] { lending.on_tick(TimePoint(1s * second)); });
    sim.run();
    EXPECT_EQ(lending.may_lend(1), forgives);
  }
}

// Ten requests a second for two seconds, then twenty: a rise of ten over the two seconds between the middles of the
// halves. Carried on for a second to now and for the lead of four, that is 20 + 5 * 5 = 45.
TEST(LendingNeeds, CarryARiseForward) {
  SimFixture sim(two_slices());
  LendingConfig config = kConfig;
  config.window = 4s;
  config.lead = 4s;
  Lending lending(sim.scheduler(), config, needs_of_two());
  for (int second = 1; second <= 4; ++second) {
    sim.at(1s * second, [&, second] {
      for (int i = 0; i < (second <= 2 ? 10 : 20); ++i) lending.on_arrival(ServiceId(0));
      lending.on_tick(TimePoint(1s * second));
    });
  }
  sim.run();
  EXPECT_NEAR(lending.rate_per_s(ServiceId(0)), 45, 1e-9);
}

// Without a table nothing is known of what the service needs.
TEST(LendingNeeds, PinWhatHasNoTable) {
  SimFixture sim(two_slices());
  Lending lending(sim.scheduler(), kConfig, {{{{SliceId(0)}, {SliceId(1)}}, {}}});
  for (int second = 1; second <= 9; ++second) {
    sim.at(1s * second, [&, second] {
      lending.on_tick(TimePoint(1s * second));
      EXPECT_FALSE(lending.may_lend(0));
      EXPECT_FALSE(lending.may_lend(1));
    });
  }
  sim.run();
}

// Two services share both slices. Up to half of their rates (4 of 8 a second) one slice suffices for both. The first
// sends 2 and the second 4 a second over a window of two seconds: 3/8 of the work that was planned, so the second slice
// may be lent. Then the second sends 7: it surely has more than half of its rate, and both slices are needed.
TEST(LendingNeeds, FollowTheWorkOfServicesThatShareSlices) {
  FixtureConfig config = two_slices();
  config.services = {{.name = "a"}, {.name = "b"}};
  SimFixture sim(config);
  ServiceNeeds shared{{{SliceId(0)}, {SliceId(1)}}, {{4, 1}, {8, 2}}, {{ServiceId(0), 0.01}, {ServiceId(1), 0.01}}};
  Lending lending(sim.scheduler(), kConfig, {shared, shared});
  std::vector<bool> may;
  for (int second = 1; second <= 12; ++second) {
    sim.at(1s * second, [&, second] {
      for (int i = 0; i < 2; ++i) lending.on_arrival(ServiceId(0));
      for (int i = 0; i < (second < 8 ? 4 : 7); ++i) lending.on_arrival(ServiceId(1));
      lending.on_tick(TimePoint(1s * second));
      may.push_back(lending.may_lend(1));
      EXPECT_FALSE(lending.may_lend(0));
    });
  }
  sim.run();
  EXPECT_TRUE(may[6]);
  EXPECT_FALSE(may[11]);
}

// Of two services on a slice one has no table: the slice is kept.
TEST(LendingNeeds, PinASharedSliceIfOneOfItsServicesHasNoTable) {
  FixtureConfig config = two_slices();
  config.services = {{.name = "a"}, {.name = "b"}};
  SimFixture sim(config);
  const ServiceNeeds with{{{SliceId(0)}, {SliceId(1)}}, {{4, 1}}, {{ServiceId(0), 0.01}, {ServiceId(1), 0.01}}};
  const ServiceNeeds without{{{SliceId(0)}, {SliceId(1)}}, {}, {}};
  Lending lending(sim.scheduler(), kConfig, {with, without});
  for (int second = 1; second <= 6; ++second) {
    sim.at(1s * second, [&, second] {
      lending.on_tick(TimePoint(1s * second));
      EXPECT_FALSE(lending.may_lend(1));
    });
  }
  sim.run();
}

}  // namespace
}  // namespace tangram::sched

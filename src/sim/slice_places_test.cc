#include "sim/slice_places.h"

#include <gtest/gtest.h>

#include "sched/test_fixture.h"

namespace tangram::sim {
namespace {

using namespace std::chrono_literals;
using sched::testing::FixtureConfig;
using sched::testing::SimFixture;

// An A100 cut into 4g and 3g, and one that is whole: two devices, three slices, 4 + 3 + 7 compute slices.
TEST(SlicePlaces, CountWhatServicesHold) {
  FixtureConfig cluster;
  cluster.layouts = {"4g@0 + 3g@4", "7g@0"};
  cluster.latency = {{"7g", {4ms}}, {"4g", {4ms}}, {"3g", {4ms}}};
  SimFixture fixture(cluster);
  const FleetUse use = fleet_use_of(fixture.scheduler().state(), TimePoint(3s));
  EXPECT_EQ(use.at, TimePoint(3s));
  EXPECT_EQ(use.devices, 2u);
  EXPECT_EQ(use.slices, 3u);
  EXPECT_EQ(use.compute_slices, 14);
}

// Two processes on one slice are two places with half of it each; only the second has its number in the name.
TEST(SlicePlaces, DivideASliceAmongItsProcesses) {
  const FixtureConfig cluster;
  sched::Deployment deployment = sched::testing::deployment_of(cluster, cluster.layouts);
  deployment.places.push_back(deployment.places[0]);
  deployment.places[1].process = 1;
  sched::testing::TestWorld world({});
  const sched::Scheduler scheduler(world, deployment, {});
  const sched::State& state = scheduler.state();
  std::vector<SlicePlace> places;
  append_places(state, places);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].name, "7g.40gb@0");
  EXPECT_EQ(places[1].name, "7g.40gb@0#1");
  EXPECT_EQ(places[0].compute_slices, 3.5);
  EXPECT_EQ(fleet_use_of(state, kTimeZero).slices, 1u);
  append_places(state, places);  // All have their names already.
  EXPECT_EQ(places.size(), 2u);
}

}  // namespace
}  // namespace tangram::sim

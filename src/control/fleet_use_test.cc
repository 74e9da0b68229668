#include "control/fleet_use.h"

#include <gtest/gtest.h>

namespace tangram::control {
namespace {

using namespace std::chrono_literals;

// Two devices for an hour, then three for half an hour.
TEST(FleetHours, AddsUpFromOneChangeToTheNext) {
  FleetHours hours;
  hours.note({kTimeZero, 2, 4, 14});
  EXPECT_DOUBLE_EQ(hours.device_hours(kTimeZero + 30min), 1);
  hours.note({kTimeZero + 1h, 3, 5, 20});
  EXPECT_DOUBLE_EQ(hours.device_hours(kTimeZero + 90min), 3.5);
  EXPECT_DOUBLE_EQ(hours.slice_hours(kTimeZero + 90min), 24);
}

// Two A100s at 2.50 an hour and one H100 at 4 for two hours, then the A100s alone for one. An earlier run had used an
// H100 for half an hour.
TEST(FleetHours, CostWhatTheirGroupsCost) {
  Fleet fleet;
  fleet.groups.resize(2);
  fleet.groups[0].name = "rack";
  fleet.groups[0].type = "a100-80gb";
  fleet.groups[0].price_per_hour = 2.5;
  fleet.groups[1].type = "h100-80gb";
  fleet.groups[1].price_per_hour = 4;
  FleetHours hours;
  hours.add(0.5, 3.5, {{"h100-80gb", 0.5}});
  hours.note({kTimeZero, 3, 3, 21, {{"rack", 2}, {"h100-80gb", 1}}});
  hours.note({kTimeZero + 2h, 2, 2, 14, {{"rack", 2}}});
  const FleetCost cost = cost_of(fleet, hours, kTimeZero + 3h);
  EXPECT_TRUE(cost.priced);
  EXPECT_DOUBLE_EQ(cost.device_hours.at("a100-80gb"), 6);
  EXPECT_DOUBLE_EQ(cost.device_hours.at("h100-80gb"), 2.5);
  EXPECT_DOUBLE_EQ(cost.cost, 6 * 2.5 + 2.5 * 4);
  EXPECT_DOUBLE_EQ(cost.cost_per_hour, 5);
}

// A deployment of an experiment may have places without devices: they count, but are of no group.
TEST(FleetUse, CountsOnlyTheDevicesThatAreThereByGroup) {
  sched::Deployment deployment;
  deployment.pools.resize(1);
  deployment.pools[0].compute_slices = 1;
  deployment.devices.resize(1);
  deployment.devices[0].name = "rack-0";
  deployment.places = {{DeviceId(0), sched::PoolId(0), {}}, {DeviceId(1), sched::PoolId(0), {}}};
  const sched::State state(std::move(deployment), 10, 0.1);
  const FleetUse use = fleet_use_of(state, kTimeZero);
  EXPECT_EQ(use.devices, 2u);
  EXPECT_EQ(use.compute_slices, 2);
  ASSERT_EQ(use.of_group.size(), 1u);
  EXPECT_EQ(use.of_group.at("rack"), 1u);
}

}  // namespace
}  // namespace tangram::control

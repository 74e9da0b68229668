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

}  // namespace
}  // namespace tangram::control

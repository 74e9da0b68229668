#include "control/observation.h"

#include <gtest/gtest.h>

namespace tangram::control {
namespace {

// Two looks of 5 and 7 arrivals make a window of 12. Three wait at the end, not 2 + 3.
TEST(AddTo, AddsCountsAndKeepsTheLastState) {
  Observation window;
  Observation look;
  look.at = kTimeZero + std::chrono::seconds(10);
  look.moving = true;
  look.services = {{.arrived = 5, .served = 4, .late = 1, .lost = 0, .waiting = 2, .sizes = {{8, 5}}}};
  add_to(window, look);
  look.at = kTimeZero + std::chrono::seconds(20);
  look.moving = false;
  look.services = {{.arrived = 7, .served = 5, .late = 0, .lost = 1, .waiting = 3, .sizes = {{8, 1}, {9, 6}}}};
  add_to(window, look);
  EXPECT_EQ(window.at, look.at);
  EXPECT_FALSE(window.moving);
  ASSERT_EQ(window.services.size(), 1U);
  const auto& service = window.services[0];
  EXPECT_EQ(service.arrived, 12U);
  EXPECT_EQ(service.served, 9U);
  EXPECT_EQ(service.late, 1U);
  EXPECT_EQ(service.lost, 1U);
  EXPECT_EQ(service.waiting, 3U);
  EXPECT_EQ(service.sizes, (std::map<std::int64_t, std::uint64_t>{{8, 6}, {9, 6}}));
}

}  // namespace
}  // namespace tangram::control

#include "control/day.h"

#include <gtest/gtest.h>

namespace tangram::control {
namespace {

using namespace std::chrono_literals;

// 300 s / 60 = 5 s, and 30 looks of 10 s / 60 end no earlier than it and by less than a look later.
TEST(AtSpeed, DividesWindowsAndLooksAndKeepsTheirRatio) {
  for (const double speed : {1.0, 7.0, 60.0, 1e3}) {
    const auto fast = at_speed(ControllerOptions{}, speed);
    EXPECT_NEAR(to_seconds(fast.interval), 300 / speed, 1e-8);
    EXPECT_GE(30 * fast.look, fast.interval);
    EXPECT_LT(30 * fast.look, fast.interval + fast.look);
    EXPECT_GT(29 * fast.look + 1us, fast.interval - fast.look);
  }
}

TEST(AtSpeed, KeepsTheAbsenceOfLooks) {
  ControllerOptions options;
  options.look = 0s;
  EXPECT_EQ(at_speed(options, 60).look, Duration::zero());
}

}  // namespace
}  // namespace tangram::control

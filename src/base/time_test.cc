#include "base/time.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tangram {
namespace {

using namespace std::chrono_literals;

template <typename Clock>
concept Readable = requires {
  Clock::now();
};
static_assert(!Readable<WorldClock>, "a stray read of the clock does not compile");
static_assert(Readable<std::chrono::steady_clock>, "the concept can be true");

TEST(Time, RoundsToTheNearestNanosecond) {
  EXPECT_EQ(from_seconds(1.5e-9), 2ns);
  EXPECT_EQ(from_seconds(-1.5e-9), -2ns);
  EXPECT_EQ(from_seconds(1.4e-9), 1ns);
  EXPECT_EQ(from_seconds(0.1), 100ms);
  EXPECT_EQ(from_milliseconds(0.25), 250us);
  EXPECT_EQ(from_seconds(0), 0ns);
}

TEST(Time, SaturatesBeyondItsRange) {
  EXPECT_EQ(from_seconds(1e10), Duration::max());
  EXPECT_EQ(from_seconds(-1e10), Duration::min());
  EXPECT_EQ(from_seconds(std::numeric_limits<double>::infinity()), Duration::max());
  EXPECT_EQ(add_saturating(kTimeNever, 1ns), kTimeNever);
  EXPECT_EQ(add_saturating(TimePoint(5ns), Duration::max()), kTimeNever);
  EXPECT_EQ(add_saturating(TimePoint(5ns), 3ns), TimePoint(8ns));
  EXPECT_EQ(add_saturating(TimePoint(5ns), -3ns), TimePoint(2ns));
  EXPECT_EQ(add_saturating(kTimeNever - 1ns, 1ns), kTimeNever);
}

TEST(TimeDeathTest, RefusesASpanThatIsNotANumber) { EXPECT_DEATH(from_seconds(std::nan("")), "is a number"); }

TEST(Time, ConvertsBackToSeconds) {
  EXPECT_DOUBLE_EQ(to_seconds(Duration(1500ms)), 1.5);
  EXPECT_DOUBLE_EQ(to_milliseconds(Duration(1500us)), 1.5);
  EXPECT_DOUBLE_EQ(to_seconds(kTimeZero + 2s), 2.0);
  for (const Duration d : {1ns, 999ns, 123456789ns, 86400000000000ns}) EXPECT_EQ(from_seconds(to_seconds(d)), d);
}

}  // namespace
}  // namespace tangram

// Time as the scheduler knows it: integer nanoseconds on a clock that nobody can read.
//
// WorldClock is a chrono clock without now(). The World hands out the instant of the event being handled, so a
// stray read of the machine's clock does not compile, and virtual and real time look the same.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/check.h"

namespace tangram {

using Duration = std::chrono::duration<std::int64_t, std::nano>;

struct WorldClock {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<WorldClock, Duration>;
  static constexpr bool is_steady = true;
};

// Nanoseconds since the World began.
using TimePoint = WorldClock::time_point;

inline constexpr TimePoint kTimeZero{};
inline constexpr TimePoint kTimeNever = TimePoint::max();

constexpr double to_seconds(Duration d) { return static_cast<double>(d.count()) * 1e-9; }
constexpr double to_milliseconds(Duration d) { return static_cast<double>(d.count()) * 1e-6; }
constexpr double to_seconds(TimePoint t) { return to_seconds(t.time_since_epoch()); }

// Rounds to the nearest nanosecond; values beyond about 292 years saturate.
constexpr Duration from_seconds(double seconds) {
  const double ns = seconds * 1e9;
  TANGRAM_CHECK(ns == ns, "a span of time is a number");
  if (ns >= 9.2e18) return Duration::max();
  if (ns <= -9.2e18) return Duration::min();
  return Duration(static_cast<std::int64_t>(ns < 0 ? ns - 0.5 : ns + 0.5));
}
constexpr Duration from_milliseconds(double milliseconds) { return from_seconds(milliseconds * 1e-3); }

// `t + d`, or kTimeNever where the sum would overflow.
constexpr TimePoint add_saturating(TimePoint t, Duration d) {
  if (d > Duration::zero() && t > kTimeNever - d) return kTimeNever;
  return t + d;
}

}  // namespace tangram

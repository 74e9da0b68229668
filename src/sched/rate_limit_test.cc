#include "sched/rate_limit.h"

#include <gtest/gtest.h>

#include "base/math.h"
#include "base/rng.h"

namespace tangram::sched {
namespace {

constexpr Duration kRun = std::chrono::milliseconds(50);

// 20 requests a second against a limit of 2: the first 81 pass (80 ahead of their time, and the one that is due), and
// of the rest as many as 1.1 * 2 a second allow. In 100 s these are 80 + 220, give or take one.
TEST(RateLimit, LetsTenTimesTheRatePassAtOneTenthMoreThanIt) {
  RateLimit limit;
  int passed = 0;
  for (int i = 0; i < 2000; ++i) passed += limit.take(kTimeZero + i * std::chrono::milliseconds(50), 2, kRun) ? 1 : 0;
  EXPECT_NEAR(passed, 300, 3);
}

// A million random arrivals at just the rate. The chance that one of them is 80 ahead is 3e-7 for each.
TEST(RateLimit, LetsRandomArrivalsAtTheRatePass) {
  RateLimit limit;
  Rng rng(1);
  double at_s = 0;
  int rejected = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    at_s += -math::log(1 - rng.uniform()) / 5;
    rejected += limit.take(kTimeZero + from_seconds(at_s), 5, kRun) ? 0 : 1;
  }
  EXPECT_LE(rejected, 50);
}

// One request of 0.9 s in a hundred seconds takes 0.9 % of a slice. Of a hundred at once 13 pass (12 ahead of their
// time, and the one that is due), not 81, which would block the slice for more than a minute. Random arrivals still
// pass.
TEST(RateLimit, LetsOnlyFewRequestsOfASeldomServicePassAtOnce) {
  constexpr Duration kLong = std::chrono::milliseconds(900);
  RateLimit limit;
  int passed = 0;
  for (int i = 0; i < 100; ++i) passed += limit.take(kTimeZero, 0.01, kLong) ? 1 : 0;
  EXPECT_EQ(passed, 13);
  RateLimit random;
  Rng rng(1);
  double at_s = 0;
  int rejected = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    at_s += -math::log(1 - rng.uniform()) / 0.01;
    rejected += random.take(kTimeZero + from_seconds(at_s), 0.01, kLong) ? 0 : 1;
  }
  EXPECT_LE(rejected, 50);
}

}  // namespace
}  // namespace tangram::sched

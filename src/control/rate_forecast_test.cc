#include "control/rate_forecast.h"

#include <gtest/gtest.h>

namespace tangram::control {
namespace {

// The example of the header. Level 0.6 * 12 + 0.4 * 10 = 11.2, trend 0.4 * 1.2 = 0.48, shortfall 12 / 10 = 1.2:
// (11.2 + 0.48 + 0.24) * 1.2 = 14.304.
TEST(RateForecast, ComputesTheExampleOfItsHeader) {
  RateForecast forecast({}, 10);
  forecast.observe(3000, 300);
  forecast.observe(3600, 300);
  EXPECT_NEAR(forecast.level_per_s(), 11.2, 1e-12);
  EXPECT_NEAR(forecast.demand_per_s(), 14.304, 1e-12);
}

// A steady rate of 10/s is forecast as it is: level 10, no trend, no shortfall.
TEST(RateForecast, KeepsASteadyRate) {
  RateForecast forecast({}, 10);
  for (int i = 0; i < 10; ++i) forecast.observe(3000, 300);
  EXPECT_NEAR(forecast.demand_per_s(), 10, 1e-9);
}

// The rate grows by 1/s in each window, from 10 to 29. The forecast for the next is at least the 30 that it brings.
TEST(RateForecast, LooksAheadOfARateThatGrows) {
  RateForecast forecast({}, 10);
  for (std::uint64_t i = 0; i < 20; ++i) forecast.observe((10 + i) * 300, 300);
  EXPECT_GE(forecast.demand_per_s(), 30);
  EXPECT_LE(forecast.demand_per_s(), 36);
}

// Every fourth window brings 1.4 times as much as the others. The 95 % quantile of the shortfalls covers it.
TEST(RateForecast, LeavesRoomForWhatItFellShortBy) {
  RateForecast forecast({}, 10);
  for (int i = 0; i < 23; ++i) forecast.observe(i % 4 == 3 ? 4200 : 3000, 300);
  EXPECT_GE(forecast.demand_per_s(), 14);
}

// A surge from 100/s to 300/s ends: the forecast is at 100/s with the first window after it, where a trend would take
// several. A fall that chance explains, of 12 requests to 7, is followed like any other: 0.6 * 7 + 0.4 * 12 = 9.
TEST(RateForecast, BeginsAnewWhenASurgeEnds) {
  RateForecast forecast({}, 100);
  for (int i = 0; i < 6; ++i) forecast.observe(90000, 300, true);
  forecast.observe(30000, 300);
  EXPECT_NEAR(forecast.level_per_s(), 100, 1e-9);
  RateForecast small({}, 12);
  small.observe(7, 1);
  EXPECT_NEAR(small.level_per_s(), 9, 1e-9);
}

// A jump from 10/s to 100/s and back: the level is 10/s again after a while, and room is left for half as much more and
// not for ten times as much.
TEST(RateForecast, ForgetsAJump) {
  RateForecast forecast({}, 10);
  forecast.observe(30000, 300);
  for (int i = 0; i < 15; ++i) forecast.observe(3000, 300);
  EXPECT_LE(forecast.demand_per_s(), 15.5);
  EXPECT_GE(forecast.demand_per_s(), 10);
}

// A third window with three times the rate. Told that it surged, the forecast forgets its shortfall of 3; otherwise it
// keeps the factor of 1.5, the most, for 24 windows.
TEST(RateForecast, DoesNotHoldDevicesForSurges) {
  RateForecast with({}, 100);
  RateForecast without({}, 100);
  for (int i = 0; i < 12; ++i) {
    with.observe(i == 2 ? 90000 : 30000, 300, i == 2);
    without.observe(i == 2 ? 90000 : 30000, 300, false);
  }
  EXPECT_LT(with.demand_per_s(), 1.3 * 100);
  EXPECT_GT(without.demand_per_s(), with.demand_per_s());
}

}  // namespace
}  // namespace tangram::control

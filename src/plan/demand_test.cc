#include "plan/demand.h"

#include <gtest/gtest.h>

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

// 20/s for an hour, and 2,000/s for five seconds of it.
Service with_spike(double percentile, double window_s) {
  Service service;
  service.name = service.model = "a";
  service.slo = {.latency = 50ms, .percentile = percentile, .window_s = window_s};
  TraceTraffic replay;
  for (double at = 0; at < 3600;) {
    replay.trace.push_back({kTimeZero + from_seconds(at), 1, 1});
    at += at >= 1000 && at < 1005 ? 1.0 / 2000 : 1.0 / 20;
  }
  service.traffic = std::move(replay);
  return service;
}

// The spike has 12 % of all requests, which p85 may lose, but not in the window that holds it: a minute of 11,100
// requests, of which 85 % are to be answered within it.
TEST(PlanningRate, OfATraceCountsTheBusiestWindowWhereOneIsPromised) {
  EXPECT_LT(planning_rate_per_s(with_spike(85, 0)), 40);
  EXPECT_NEAR(planning_rate_per_s(with_spike(85, 60)), 0.85 * 11100 / 60, 2);
}

// Requests gather as fast as they come in a burst, however slowly they come on average.
TEST(GatherRate, IsThatOfTheBusiestTime) {
  EXPECT_NEAR(gather_rate_per_s(with_spike(85, 0)), 2000, 40);
  Service bursts;
  bursts.slo = {.latency = 50ms, .percentile = 50};
  bursts.traffic = BurstTraffic{.rate_per_s = 100, .burst_factor = 10, .burst_mean_s = 10, .calm_mean_s = 90};
  EXPECT_NEAR(gather_rate_per_s(bursts), 100 * 10 / 1.9, 1);
  bursts.traffic = PoissonTraffic{100};
  EXPECT_EQ(gather_rate_per_s(bursts), 100);
}

}  // namespace
}  // namespace tangram::plan

#include "plan/demand.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"

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

Service of_trace(const std::vector<double>& at_s) {
  Service service;
  service.name = service.model = "a";
  service.slo = {.latency = 50ms, .percentile = 99};
  TraceTraffic replay;
  for (const double at : at_s) replay.trace.push_back({kTimeZero + from_seconds(at), 1, 1});
  service.traffic = std::move(replay);
  return service;
}

// Five at once every ten seconds are 90,000 windows of a millisecond of which ten hold five. A mean m of random arrivals
// brings five or more in m^5 / 120 e^-m of the windows, 10 / 90,000 at m = 0.5: 500/s. One in each second is no clump,
// and is judged at the busiest ten seconds. 20 random arrivals a second are judged at little more than that; a spike of
// 2,000/s for five seconds at nearly its own rate, which is too much for neighbours.
TEST(NeighbourRate, IsThatOfRandomArrivalsWhichComeAsCloselyAsThoseOfATrace) {
  std::vector<double> five;
  std::vector<double> one;
  for (int i = 0; i < 50; ++i) {
    five.push_back(10.0 * (i / 5));
    one.push_back(i);
  }
  EXPECT_NEAR(neighbour_rate_per_s(of_trace(five)), 480, 50);
  EXPECT_TRUE(comes_at_once(of_trace(five)));
  EXPECT_NEAR(neighbour_rate_per_s(of_trace(one)), 1, 0.1);
  EXPECT_FALSE(comes_at_once(of_trace(one)));
  Rng rng(3);
  std::vector<double> random;
  for (double at = 0; at < 3600; at += rng.exponential(1.0 / 20)) random.push_back(at);
  const double rate = neighbour_rate_per_s(of_trace(random));
  EXPECT_GE(rate, 20);
  EXPECT_LT(rate, 35);
  EXPECT_FALSE(comes_at_once(of_trace(random)));
  EXPECT_GT(neighbour_rate_per_s(with_spike(85, 0)), 1500);
  EXPECT_TRUE(comes_at_once(with_spike(85, 0)));
}

// 28 requests a second of size 32, and of 512 in the first nine seconds of every two minutes: 68 in the mean, so these
// seconds bring 7.5 times the usual work at the usual rate. The same sizes in any order are chance.
TEST(NeighbourLoad, CountsLargeRequestsThatComeTogether) {
  Service together;
  together.name = together.model = "a";
  together.slo = {.latency = 50ms, .percentile = 99};
  together.input_size = TraceSize{};
  Service mixed = together;
  TraceTraffic replay;
  for (double at = 0; at < 3600; at += 1.0 / 28) {
    replay.trace.push_back({kTimeZero + from_seconds(at), std::fmod(at, 120) < 9 ? 512 : 32, 1});
  }
  together.traffic = replay;
  EXPECT_LT(neighbour_rate_per_s(together), 35);
  EXPECT_NEAR(neighbour_load_per_s(together), 7.5 * 28, 40);
  EXPECT_TRUE(comes_at_once(together));
  Rng rng(7);
  for (auto& entry : replay.trace) entry.size = rng.uniform() < 9.0 / 120 ? 512 : 32;
  mixed.traffic = replay;
  EXPECT_LT(neighbour_load_per_s(mixed), 1.5 * neighbour_rate_per_s(mixed));
  EXPECT_FALSE(comes_at_once(mixed));
}

}  // namespace
}  // namespace tangram::plan

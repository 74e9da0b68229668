#include "sim/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace tangram::sim {
namespace {

using namespace std::chrono_literals;

Service service_with(Traffic traffic) {
  Service service;
  service.name = "s";
  service.traffic = std::move(traffic);
  return service;
}

std::vector<double> times_of(const Service& service, double until_s, std::uint64_t seed = 1, double scale = 1,
                             double begin_s = 0) {
  const Rng rng(seed);
  ArrivalSource source(service, rng, 0, scale, begin_s);
  std::vector<double> times;
  while (const auto arrival = source.next()) {
    const double at = to_seconds(arrival->at);
    if (at > until_s) break;
    EXPECT_GE(at, times.empty() ? 0 : times.back());
    times.push_back(at);
  }
  return times;
}

// Variance over mean of the number of arrivals in windows of one second.
double dispersion(const std::vector<double>& times, double until_s) {
  std::vector<double> counts(static_cast<std::size_t>(until_s));
  for (const double at : times) {
    if (at < until_s) ++counts[static_cast<std::size_t>(at)];
  }
  double mean = 0, square = 0;
  for (const double c : counts) mean += c / static_cast<double>(counts.size());
  for (const double c : counts) square += (c - mean) * (c - mean) / static_cast<double>(counts.size());
  return square / mean;
}

// 20000 s at 50/s: a million arrivals, standard deviation 1000, so 0.3 % are three of them. A Poisson process has as
// much variance as mean; over 20000 windows the quotient is known to about 1 %.
TEST(Arrivals, PoissonHasTheRateAndVarianceOfItsName) {
  const auto times = times_of(service_with(PoissonTraffic{50}), 20000);
  EXPECT_NEAR(static_cast<double>(times.size()), 1e6, 3000);
  EXPECT_NEAR(dispersion(times, 20000), 1, 0.04);
}

TEST(Arrivals, ConstantHasEqualGaps) {
  const auto times = times_of(service_with(ConstantTraffic{4}), 10);
  ASSERT_EQ(times.size(), 40u);
  for (std::size_t i = 0; i < times.size(); ++i) EXPECT_NEAR(times[i], 0.25 * static_cast<double>(i + 1), 1e-9);
}

// The mean holds over both states, here 20000 s of 100/s within 5 %: about 1000 cycles of 20 s whose bursts carry half
// of the arrivals. Calm is 100 / (1 + 0.1 x 9) = 52.6/s, a burst 526/s: counts are far from Poisson.
TEST(Arrivals, BurstsKeepTheMeanRateAndAreBursty) {
  const auto times = times_of(service_with(BurstTraffic{100, 10, 2, 18}), 20000);
  EXPECT_NEAR(static_cast<double>(times.size()), 2e6, 1e5);
  EXPECT_GT(dispersion(times, 20000), 50);
}

// Over 200 periods, the hour around the peak at 30 s (of 100 s) has 1 + 0.8 = 1.8 times the mean, the one around the
// trough half a period away 0.2 times.
TEST(Arrivals, DiurnalPeaksWhereItShould) {
  const auto times = times_of(service_with(DiurnalTraffic{100, 0.8, 100, 30}), 20000);
  EXPECT_NEAR(static_cast<double>(times.size()), 2e6, 1e4);
  double peak = 0, trough = 0;
  for (const double at : times) {
    const double phase = std::fmod(at, 100);
    peak += phase >= 29 && phase < 31 ? 1 : 0;
    trough += phase >= 79 && phase < 81 ? 1 : 0;
  }
  // 200 periods x 2 s x 100/s = 40000 at the mean rate.
  EXPECT_NEAR(peak / 40000, 1.8, 0.03);
  EXPECT_NEAR(trough / 40000, 0.2, 0.01);
}

// Steps of 10 s at 100, 0 and 50 a second, times 2, again and again.
TEST(Arrivals, CurveFollowsItsStepsAndRepeats) {
  const auto times = times_of(service_with(CurveTraffic{"", 10, 2, {100, 0, 50}}), 30000);
  std::map<int, double> by_step;
  for (const double at : times) ++by_step[static_cast<int>(std::fmod(at, 30) / 10)];
  // 1000 rounds of 10 s at 200/s and 100/s.
  EXPECT_NEAR(by_step[0], 2e6, 6000);
  EXPECT_EQ(by_step[1], 0);
  EXPECT_NEAR(by_step[2], 1e6, 4000);
}

// Steps of 10 s, and the arrivals begin at 15 s: five seconds of the second step are left, then the third, with no
// arrivals, then the first again. Times count from the beginning.
TEST(Arrivals, BeginWithinACurve) {
  const auto times = times_of(service_with(CurveTraffic{"", 10, 1, {10, 1000, 0}}), 25, 1, 1, 15);
  const auto within = [&](double from, double to) {
    return std::ranges::count_if(times, [&](double at) { return at >= from && at < to; });
  };
  EXPECT_NEAR(static_cast<double>(within(0, 5)), 5000, 300);
  EXPECT_EQ(within(5, 15), 0);
  EXPECT_NEAR(static_cast<double>(within(15, 25)), 100, 40);
}

// The peak is at 600 s of the day, and the arrivals begin at 500 s: it comes after 100 s.
TEST(Arrivals, BeginWithinADay) {
  const auto times = times_of(service_with(DiurnalTraffic{100, 1, 1000, 600}), 200, 1, 1, 500);
  // The mean within 25 s of the peak is 100 * (1 + 0.996); fifty seconds at the trough would bring almost none.
  const auto at_peak = std::ranges::count_if(times, [](double at) { return at >= 75 && at < 125; });
  EXPECT_NEAR(static_cast<double>(at_peak), 9980, 400);
}

TEST(Arrivals, BeginWithinADriftOfSizes) {
  Service service = service_with(ConstantTraffic{10});
  service.size_drift = SizeDrift{ConstantSize{9}, 100, 200};
  const Rng rng(1);
  ArrivalSource after(service, rng, 0, 1, 200);
  EXPECT_EQ(after.next()->size, 9);
}

TEST(Arrivals, TraceIsReplayedAtItsSpeedWithItsSizes) {
  TraceTraffic replay;
  replay.speed = 2;
  replay.trace = {{kTimeZero + 2s, 7, 1}, {kTimeZero + 4s, 9, 3}};
  Service service = service_with(replay);
  service.input_size = TraceSize{};
  const Rng rng(1);
  ArrivalSource source(service, rng, 0, 2);  // Twice the trace's own speed again.
  const auto first = source.next();
  const auto second = source.next();
  EXPECT_EQ(first->at, kTimeZero + 500ms);
  EXPECT_EQ(first->size, 7);
  EXPECT_EQ(second->at, kTimeZero + 1s);
  EXPECT_EQ(second->size, 9);
  EXPECT_EQ(second->samples, 3);
  EXPECT_FALSE(source.next().has_value());
}

TEST(Arrivals, NoneWithoutARate) {
  for (const Traffic& traffic :
       {Traffic(PoissonTraffic{}), Traffic(ConstantTraffic{}), Traffic(BurstTraffic{}), Traffic(DiurnalTraffic{}),
        Traffic(CurveTraffic{}), Traffic(CurveTraffic{"", 1, 1, {0, 0}}), Traffic(TraceTraffic{})}) {
    EXPECT_TRUE(times_of(service_with(traffic), 100).empty()) << traffic.index();
  }
}

// A closed loop has as many first arrivals as clients; each further one follows an answer.
TEST(Arrivals, ClosedLoopThinksBetweenAnswerAndRequest) {
  const Service service = service_with(ClosedLoopTraffic{5, 2});
  const Rng rng(1);
  ArrivalSource source(service, rng, 0, 1);
  int first = 0;
  while (source.next()) ++first;
  EXPECT_EQ(first, 5);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) sum += to_seconds(source.after_answer(kTimeZero + 10s).at) - 10;
  EXPECT_NEAR(sum / 100000, 2, 0.03);
}

// Arrivals of a service do not depend on its sizes, nor on other services: the same times for every policy.
TEST(Arrivals, AreTheSameForOneSeedAndDifferForAnother) {
  Service plain = service_with(PoissonTraffic{50});
  Service sized = plain;
  sized.input_size = LogNormalSize{10, 1, 1, 100};
  EXPECT_EQ(times_of(plain, 10), times_of(sized, 10));
  EXPECT_NE(times_of(plain, 10), times_of(plain, 10, 2));
}

TEST(SizeSampler, DrawsFromItsDistribution) {
  Rng rng(3);
  EXPECT_EQ(SizeSampler(ConstantSize{12}).draw(rng), 12);

  const SizeSampler log_normal(LogNormalSize{100, 0.5, 20, 300});
  int below = 0;
  for (int i = 0; i < 100000; ++i) {
    const auto size = log_normal.draw(rng);
    ASSERT_TRUE(size >= 20 && size <= 300);
    below += size <= 100 ? 1 : 0;  // Rounded: the median lies at 100.
  }
  EXPECT_NEAR(below / 1e5, 0.504, 0.006);

  const SizeSampler histogram(HistogramSize{"", {{8, 1}, {16, 3}}});
  int large = 0;
  for (int i = 0; i < 100000; ++i) large += histogram.draw(rng) == 16 ? 1 : 0;
  EXPECT_NEAR(large / 1e5, 0.75, 0.005);
}

// Sizes are 10 until 100 s and 20 from 300 s on; between, the share of 20 grows evenly. At 100/s each of the four
// stretches of 100 s has 10,000 requests, so a share is known to 0.5 % at one standard deviation: 0, 1/4, 3/4, 1.
TEST(Arrivals, SizesDriftEvenlyFromOneDistributionToAnother) {
  Service service = service_with(PoissonTraffic{100});
  service.input_size = ConstantSize{10};
  service.size_drift = SizeDrift{ConstantSize{20}, 100, 300};
  ArrivalSource source(service, Rng(1), 0, 1);
  std::vector<double> large(4, 0);
  std::vector<double> all(4, 0);
  while (const auto arrival = source.next()) {
    const auto stretch = static_cast<std::size_t>(to_seconds(arrival->at) / 100);
    if (stretch >= all.size()) break;
    ++all[stretch];
    large[stretch] += arrival->size == 20 ? 1 : 0;
  }
  EXPECT_EQ(large[0], 0);
  EXPECT_NEAR(large[1] / all[1], 0.25, 0.02);
  EXPECT_NEAR(large[2] / all[2], 0.75, 0.02);
  EXPECT_EQ(large[3], all[3]);
}

}  // namespace
}  // namespace tangram::sim

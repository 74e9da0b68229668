#include "lab/share_estimate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace tangram::lab {
namespace {

sim::Tally tally(std::uint64_t arrived, std::uint64_t served) {
  sim::Tally t;
  t.arrived = arrived;
  t.served = served;
  t.late = arrived - served;
  t.latency.add(1'000'000, served);
  t.latency.add(9'000'000, arrived - served);
  return t;
}

// 90 % and 50 % of two parts that bring three quarters and one quarter of the requests: 80 %, however many requests of
// each were simulated.
TEST(ShareEstimate, WeighsPartsByTheirShares) {
  ShareEstimate estimate(2);
  const std::vector<double> weight{0.75, 0.25};
  for (int i = 0; i < 4; ++i) estimate.add(std::vector{tally(1000, 900), tally(5000, 2500)});
  EXPECT_NEAR(estimate.share(weight), 0.8, 1e-12);
  EXPECT_EQ(estimate.replicates(), 4u);
  // 67.5 % of all are answered within 1 ms in the first part and 12.5 % in the second: 80 % in all.
  EXPECT_LE(estimate.latency(weight, 0.79), Duration(1'010'000));
  EXPECT_GE(estimate.latency(weight, 0.81), Duration(8'900'000));
}

// Two replicates in one run are two replicates.
TEST(ShareEstimate, TakesSeveralReplicatesAtOnce) {
  ShareEstimate estimate(1);
  estimate.add(std::vector{tally(100, 90), tally(100, 80)});
  EXPECT_EQ(estimate.replicates(), 2u);
  EXPECT_NEAR(estimate.share(std::vector{1.0}), 0.85, 1e-12);
}

// Without a single loss among 1,000 requests, a share of 99 % cannot be ruled out; among a million it can.
TEST(ShareEstimate, DoesNotTrustThatNothingWasSeen) {
  ShareEstimate few(1);
  ShareEstimate many(1);
  for (int i = 0; i < 10; ++i) {
    few.add(std::vector{tally(100, 100)});
    many.add(std::vector{tally(100000, 100000)});
  }
  EXPECT_LT(few.interval(std::vector{1.0}, 0.05).low, 0.99);
  EXPECT_GT(many.interval(std::vector{1.0}, 0.05).low, 0.999);
}

// Replicates with a true share of 0.9 and a spread of 2 points: the lower end at 5 % lies above 0.9 in about one of
// twenty experiments. With 400 of them the count lies between 8 and 36 but for one chance in ten thousand.
TEST(ShareEstimate, IsWrongAsOftenAsItSays) {
  Rng rng(3);
  int above = 0;
  for (int experiment = 0; experiment < 400; ++experiment) {
    ShareEstimate estimate(1);
    for (int i = 0; i < 8; ++i) {
      const double share = 0.9 + 0.02 * rng.normal();
      estimate.add(std::vector{tally(100000, static_cast<std::uint64_t>(std::lround(1e5 * std::min(1.0, share))))});
    }
    above += estimate.interval(std::vector{1.0}, 0.05).low > 0.9;
  }
  EXPECT_GE(above, 8);
  EXPECT_LE(above, 36);
}

}  // namespace
}  // namespace tangram::lab

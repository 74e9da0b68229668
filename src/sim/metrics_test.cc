#include "sim/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace tangram::sim {
namespace {

using namespace std::chrono_literals;

// The value of rank ceil(q n) of an exact sort, within the sketch's 1/256.
TEST(Tally, QuantilesAgreeWithAnExactSort) {
  Rng rng(4);
  for (const std::size_t n : {1u, 2u, 3u, 7u, 49u, 100u, 1000u, 20000u}) {
    Tally tally;
    std::vector<double> exact;
    for (std::size_t i = 0; i < n; ++i) {
      const auto value = static_cast<std::uint64_t>(rng.log_normal(16, 1));
      tally.latency.add(value);
      exact.push_back(static_cast<double>(value));
    }
    tally.arrived = tally.served = n;
    std::ranges::sort(exact);
    for (const double q : {0.5, 0.9, 0.95, 0.99, 0.999}) {
      const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(n) - 1e-9));
      const double expected = exact[std::max<std::size_t>(rank, 1) - 1];
      EXPECT_NEAR(static_cast<double>(tally.latency_quantile(q).count()), expected, expected / 250) << n << " " << q;
    }
  }
}

// Of 100 requests 97 were answered: the p95 is the 95th fastest, the p98 falls on those without an answer.
TEST(Tally, CountsRequestsWithoutAnAnswerAsInfinite) {
  Tally tally;
  for (int i = 1; i <= 97; ++i) tally.latency.add(static_cast<std::uint64_t>(i) * 1000);
  tally.arrived = 100;
  tally.served = 97;
  tally.failed = 1;
  tally.rejected[1] = 2;
  EXPECT_EQ(tally.resolved(), 100u);
  EXPECT_NEAR(static_cast<double>(tally.latency_quantile(0.95).count()), 95000, 400);
  EXPECT_EQ(tally.latency_quantile(0.97), 97us);
  EXPECT_EQ(tally.latency_quantile(0.98), Duration::max());
  EXPECT_DOUBLE_EQ(tally.slo_attainment(), 0.97);
}

TEST(Tally, OfNothingHasKeptEveryPromise) {
  EXPECT_EQ(Tally().slo_attainment(), 1);
  EXPECT_EQ(Tally().latency_quantile(0.5), Duration::max());
}

}  // namespace
}  // namespace tangram::sim

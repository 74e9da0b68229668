#include "base/quantile_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/rng.h"

namespace tangram {
namespace {

constexpr double kQuantiles[] = {0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 1};

std::uint64_t exact_quantile(const std::vector<std::uint64_t>& sorted, double q) {
  const double rank = std::max(1.0, std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[static_cast<std::size_t>(rank) - 1];
}

// The promise: every quantile is within 1/256 of the value of its exact rank.
void expect_within_stated_error(std::vector<std::uint64_t> values, const char* shape) {
  QuantileSketch sketch;
  for (const auto v : values) sketch.add(v);
  std::ranges::sort(values);
  for (const double q : kQuantiles) {
    const auto exact = static_cast<double>(exact_quantile(values, q));
    const double error = std::abs(static_cast<double>(sketch.quantile(q)) - exact);
    EXPECT_LE(error, exact * QuantileSketch::kRelativeError) << shape << " at " << q;
  }
  EXPECT_EQ(sketch.min(), values.front()) << shape;
  EXPECT_EQ(sketch.max(), values.back()) << shape;
  EXPECT_EQ(sketch.count(), values.size()) << shape;
}

TEST(QuantileSketch, StaysWithinItsStatedErrorForManyShapes) {
  Rng rng(1);
  const auto make = [](std::size_t count, const std::function<double()>& draw) {
    std::vector<std::uint64_t> values(count);
    for (auto& v : values) v = static_cast<std::uint64_t>(draw());
    return values;
  };
  expect_within_stated_error(make(20'000, [&] { return rng.uniform(0, 1e6); }), "uniform");
  expect_within_stated_error(make(20'000, [&] { return rng.exponential(5e6); }), "exponential");
  expect_within_stated_error(make(20'000, [&] { return rng.log_normal(15, 3); }), "log-normal");
  expect_within_stated_error(make(20'000, [&] { return rng.chance(0.5) ? 1e3 : 1e9; }), "two peaks");
  expect_within_stated_error(make(20'000, [&] { return rng.below(100); }), "small numbers");
  expect_within_stated_error(make(1'000, [&] { return std::exp2(rng.uniform(0, 63.9)); }), "all sizes");
  expect_within_stated_error(make(1, [&] { return 12345; }), "one value");
  expect_within_stated_error(make(7, [&] { return 777'777; }), "equal values");
}

// Every power of two and its neighbours begins or ends a bucket.
TEST(QuantileSketch, StaysWithinItsStatedErrorAtTheEdgesOfBuckets) {
  for (int bit = 0; bit < 64; ++bit) {
    for (const int step : {-1, 0, 1}) {
      const std::uint64_t value = (1ULL << bit) + static_cast<std::uint64_t>(step);
      QuantileSketch sketch;
      sketch.add(0);
      sketch.add(value);
      sketch.add(UINT64_MAX);
      const auto middle = sketch.quantile(0.5);
      const std::uint64_t error = middle > value ? middle - value : value - middle;
      EXPECT_LE(static_cast<double>(error), static_cast<double>(value) / 256) << value;
    }
  }
}

TEST(QuantileSketch, IsExactBelow256) {
  for (std::uint64_t value = 0; value < 256; ++value) {
    QuantileSketch sketch;
    sketch.add(0);
    sketch.add(value);
    sketch.add(1'000'000);
    EXPECT_EQ(sketch.quantile(0.5), value);
    EXPECT_EQ(sketch.count_at_most(value), 2U);
  }
}

TEST(QuantileSketch, HoldsTheExtremesOfItsRange) {
  QuantileSketch sketch;
  sketch.add(UINT64_MAX);
  sketch.add(0);
  EXPECT_EQ(sketch.quantile(0), 0U);
  EXPECT_EQ(sketch.quantile(1), UINT64_MAX);
  EXPECT_EQ(sketch.min(), 0U);
  EXPECT_EQ(sketch.max(), UINT64_MAX);
  EXPECT_EQ(sketch.count_at_most(UINT64_MAX), 2U);
  EXPECT_EQ(sketch.buckets().back().high, UINT64_MAX);
}

TEST(QuantileSketch, NeverNeedsMoreMemoryThanStated) {
  Rng rng(2);
  QuantileSketch sketch;
  for (int i = 0; i < 100'000; ++i) sketch.add(rng.next_u64() >> rng.below(64));
  sketch.add(0);
  sketch.add(UINT64_MAX);
  EXPECT_LE(sketch.memory_bytes(), 60'000U);

  // Latencies between 1 and 2 ms lie in one power of two or two of them.
  QuantileSketch narrow;
  for (std::uint64_t i = 0; i < 1'000; ++i) narrow.add(1'000'000 + 1'000 * i);
  EXPECT_LE(narrow.memory_bytes(), 3 * 1024U);
}

TEST(QuantileSketch, IsEmptyUntilAValueIsAdded) {
  QuantileSketch sketch;
  sketch.add(5, 0);  // No times is not once.
  EXPECT_TRUE(sketch.empty());
  EXPECT_EQ(sketch.quantile(0.5), 0U);
  EXPECT_EQ(sketch.min(), 0U);
  EXPECT_EQ(sketch.max(), 0U);
  EXPECT_EQ(sketch.mean(), 0);
  EXPECT_EQ(sketch.count_at_most(10), 0U);
  EXPECT_TRUE(sketch.buckets().empty());
}

TEST(QuantileSketch, WeighsValuesByHowOftenTheyWereSeen) {
  QuantileSketch sketch;
  sketch.add(10, 98);
  sketch.add(200, 2);
  EXPECT_EQ(sketch.quantile(0.98), 10U);
  EXPECT_EQ(sketch.quantile(0.99), 200U);
  EXPECT_DOUBLE_EQ(sketch.mean(), (98 * 10 + 2 * 200) / 100.0);
  EXPECT_DOUBLE_EQ(sketch.sum(), 1380);
  EXPECT_EQ(sketch.count_at_most(10), 98U);
  EXPECT_EQ(sketch.count_at_most(9), 0U);
}

TEST(QuantileSketch, MergedFromPartsEqualsTheWhole) {
  Rng rng(3);
  QuantileSketch whole;
  std::vector<QuantileSketch> parts(5);
  for (int i = 0; i < 20'000; ++i) {
    const auto value = static_cast<std::uint64_t>(rng.log_normal(12, 4));
    whole.add(value);
    parts[rng.below(parts.size())].add(value);
  }
  QuantileSketch merged;
  for (const auto& part : parts) merged.merge(part);
  merged.merge(QuantileSketch{});
  for (const double q : kQuantiles) EXPECT_EQ(merged.quantile(q), whole.quantile(q)) << q;
  EXPECT_EQ(merged.count(), whole.count());
  EXPECT_EQ(merged.min(), whole.min());
  EXPECT_EQ(merged.max(), whole.max());
  EXPECT_NEAR(merged.mean() / whole.mean(), 1, 1e-12);
}

TEST(QuantileSketch, MergesRangesThatDoNotMeet) {
  QuantileSketch low;
  low.add(3);
  QuantileSketch high;
  high.add(1ULL << 50);
  low.merge(high);
  EXPECT_EQ(low.count(), 2U);
  EXPECT_EQ(low.quantile(0.5), 3U);
  EXPECT_EQ(low.max(), 1ULL << 50);
  high.merge(low);
  EXPECT_EQ(high.count(), 3U);
  EXPECT_EQ(high.min(), 3U);
}

TEST(QuantileSketch, ListsBucketsThatHoldEachValueOnce) {
  Rng rng(4);
  QuantileSketch sketch;
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 3'000; ++i) values.push_back(rng.next_u64() >> rng.below(64));
  for (const auto v : values) sketch.add(v);
  std::uint64_t listed = 0;
  std::uint64_t previous_high = 0;
  for (const auto& bucket : sketch.buckets()) {
    const auto inside = std::ranges::count_if(values, [&](auto v) { return v >= bucket.low && v <= bucket.high; });
    ASSERT_EQ(static_cast<std::uint64_t>(inside), bucket.count);
    ASSERT_TRUE(listed == 0 || bucket.low > previous_high);
    previous_high = bucket.high;
    listed += bucket.count;
  }
  EXPECT_EQ(listed, values.size());
}

TEST(QuantileSketchDeathTest, RefusesQuantilesOutsideZeroToOne) {
  QuantileSketch sketch;
  sketch.add(1);
  EXPECT_DEATH(sketch.quantile(1.01), "between 0 and 1");
  EXPECT_DEATH(sketch.quantile(std::nan("")), "between 0 and 1");
}

TEST(CountHistogram, CountsUpToItsLimitAndTheRestTogether) {
  CountHistogram histogram(3);
  for (const std::size_t value : {0, 1, 1, 3, 4, 100}) histogram.add(value);
  EXPECT_EQ(histogram.limit(), 3U);
  EXPECT_EQ(histogram.count(0), 1U);
  EXPECT_EQ(histogram.count(1), 2U);
  EXPECT_EQ(histogram.count(2), 0U);
  EXPECT_EQ(histogram.count(3), 1U);
  EXPECT_EQ(histogram.overflow(), 2U);
  EXPECT_EQ(histogram.total(), 6U);
}

TEST(CountHistogram, MergesCountByCount) {
  CountHistogram a(2);
  CountHistogram b(2);
  a.add(1, 5);
  b.add(1, 2);
  b.add(9, 3);
  a.merge(b);
  EXPECT_EQ(a.count(1), 7U);
  EXPECT_EQ(a.overflow(), 3U);
  EXPECT_EQ(a.total(), 10U);
}

TEST(CountHistogramDeathTest, RefusesToMergeOtherLimits) {
  CountHistogram a(2);
  EXPECT_DEATH(a.merge(CountHistogram(3)), "histograms of one limit");
}

}  // namespace
}  // namespace tangram

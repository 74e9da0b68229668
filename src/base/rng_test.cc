#include "base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <set>

namespace tangram {
namespace {

// The published algorithms once more, written from their papers, to compare with.
std::uint64_t reference_splitmix64(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::uint64_t reference_xoshiro256pp(std::array<std::uint64_t, 4>& s) {
  const std::uint64_t result = std::rotl(s[0] + s[3], 23) + s[0];
  const std::uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = std::rotl(s[3], 45);
  return result;
}

// The test vectors that the authors and other implementations publish.
TEST(Rng, IsCheckedAgainstReferencesThatAreRight) {
  std::uint64_t mixer = 1234567;
  EXPECT_EQ(reference_splitmix64(mixer), 6457827717110365317ULL);
  EXPECT_EQ(reference_splitmix64(mixer), 3203168211198807973ULL);
  std::array<std::uint64_t, 4> state{1, 2, 3, 4};
  EXPECT_EQ(reference_xoshiro256pp(state), 41943041ULL);
  EXPECT_EQ(reference_xoshiro256pp(state), 58720359ULL);
  EXPECT_EQ(reference_xoshiro256pp(state), 3588806011781223ULL);
}

TEST(Rng, IsXoshiroSeededBySplitmix) {
  for (const std::uint64_t seed : {0ULL, 1ULL, 42ULL, ~0ULL}) {
    std::uint64_t mixer = seed;
    std::uint64_t filler = reference_splitmix64(mixer);
    std::array<std::uint64_t, 4> state{};
    for (auto& word : state) word = reference_splitmix64(filler);
    Rng rng(seed);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(rng.next_u64(), reference_xoshiro256pp(state)) << seed;
  }
}

TEST(Rng, RepeatsTheRecordedNumbersOfASeed) {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  Rng seed_0(0);
  EXPECT_EQ(seed_0.next_u64(), 0x84f09bf307c1073aULL);
  EXPECT_EQ(seed_0.next_u64(), 0xc82ffb597ceee51bULL);
  EXPECT_EQ(seed_0.next_u64(), 0xadf96905c5df4417ULL);
  Rng seed_42(42);
  EXPECT_EQ(seed_42.next_u64(), 0xab4c4adfbb450230ULL);
  EXPECT_EQ(seed_42.next_u64(), 0x16c758048460b512ULL);
  EXPECT_EQ(seed_42.next_u64(), 0xdeff27396f8eb5c7ULL);
  Rng rng(2026);
  EXPECT_EQ(bits(rng.uniform()), 0x3fd287ae210aeb6aULL);
  EXPECT_EQ(bits(rng.exponential(2)), 0x400b69993f6ab5c4ULL);
  EXPECT_EQ(bits(rng.normal()), 0xbfe0cbf5e2225c76ULL);
  EXPECT_EQ(bits(rng.log_normal(1, 0.5)), 0x4002973f5c441f7aULL);
  EXPECT_EQ(bits(rng.gamma(2.5, 1)), 0x4019d982b76f6d54ULL);
  EXPECT_EQ(bits(rng.gamma(0.3, 1)), 0x3f8a3c3174eaa596ULL);
  EXPECT_EQ(rng.poisson(10), 11U);
  EXPECT_EQ(rng.below(1000), 557U);
  // A digest of many draws: a single different byte in the tables would show.
  std::uint64_t digest = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t gap = bits(rng.exponential(1));
    const std::uint64_t bell = bits(rng.normal());
    digest = digest * 31 + gap + bell + bits(rng.gamma(1.5, 1));
  }
  EXPECT_EQ(digest, 0x66e9bf6f114b237aULL);
}

TEST(RngStream, RepeatsTheRecordedNumbersOfItsName) {
  const Rng rng(42);
  EXPECT_EQ(rng.stream("arrivals").next_u64(), 0xf0524e0809e0249fULL);
  EXPECT_EQ(rng.stream("sizes").next_u64(), 0xe6f84f0a192474d2ULL);
  EXPECT_EQ(rng.stream("").next_u64(), 0x11bd92dc495b2b1fULL);
  EXPECT_EQ(rng.stream("arrivals", 0).next_u64(), 0x945ecc866cb6d4dbULL);
  EXPECT_EQ(rng.stream("arrivals", 1).next_u64(), 0xd4d40d251d0c8947ULL);
}

TEST(RngStream, DoesNotDependOnDraws) {
  Rng fresh(7);
  Rng used(7);
  for (int i = 0; i < 100; ++i) used.normal();
  EXPECT_EQ(fresh.stream("arrivals").next_u64(), used.stream("arrivals").next_u64());
  EXPECT_EQ(fresh.stream("arrivals", 3).next_u64(), used.stream("arrivals", 3).next_u64());
}

TEST(RngStream, DiffersByNameIndexAndSeed) {
  std::set<std::uint64_t> first_numbers;
  std::size_t streams = 0;
  for (const std::uint64_t seed : {1ULL, 2ULL, 3ULL}) {
    const Rng rng(seed);
    for (const char* name : {"", "a", "b", "ab", "ba", "arrivals", "sizes", "faults"}) {
      first_numbers.insert(rng.stream(name).next_u64());
      ++streams;
      for (std::uint64_t index = 0; index < 100; ++index, ++streams) {
        first_numbers.insert(rng.stream(name, index).next_u64());
      }
    }
  }
  EXPECT_EQ(first_numbers.size(), streams);
}

// The correlation of two independent columns of n numbers has deviation 1/sqrt(n) = 0.01: four of those are 0.04.
TEST(RngStream, IsUncorrelatedWithItsNeighbours) {
  const Rng root(11);
  for (std::uint64_t index = 0; index < 50; ++index) {
    Rng a = root.stream("service", index);
    Rng b = root.stream("service", index + 1);
    double sum = 0;
    for (int i = 0; i < 10'000; ++i) sum += (a.uniform() - 0.5) * (b.uniform() - 0.5);
    EXPECT_LT(std::abs(sum * 12 / 10'000), 0.04) << index;
  }
}

TEST(RngStream, NestsWithoutMeetingItsParent) {
  const Rng rng(5);
  EXPECT_NE(rng.stream("a").stream("b").next_u64(), rng.stream("b").stream("a").next_u64());
  EXPECT_NE(rng.stream("a").next_u64(), rng.stream("a").stream("a").next_u64());
}

TEST(RngUniform, StaysInsideItsHalfOpenRange) {
  Rng rng(6);
  for (int i = 0; i < 100'000; ++i) {
    const double u = rng.uniform();
    ASSERT_TRUE(u >= 0 && u < 1);
    const double v = rng.uniform(-3, 5);
    ASSERT_TRUE(v >= -3 && v < 5);
  }
}

// Chi-square with 9 degrees of freedom exceeds 27.9 once in a thousand.
TEST(RngBelow, IsUniform) {
  Rng rng(8);
  std::array<double, 10> counts{};
  for (int i = 0; i < 100'000; ++i) counts[rng.below(10)] += 1;
  double chi_square = 0;
  for (const double c : counts) chi_square += (c - 10'000) * (c - 10'000) / 10'000;
  EXPECT_LT(chi_square, 27.9);
}

// A draw modulo 3 * 2^62 would meet each number below 2^62 twice as often as the others: half of all draws. Without
// bias it is a third.
TEST(RngBelow, IsWithoutBiasForHugeBounds) {
  Rng rng(9);
  const std::uint64_t third = 1ULL << 62;
  int low = 0;
  for (int i = 0; i < 90'000; ++i) {
    const std::uint64_t x = rng.below(3 * third);
    ASSERT_LT(x, 3 * third);
    low += x < third ? 1 : 0;
  }
  EXPECT_NEAR(low, 30'000, 4 * std::sqrt(90'000 * 2.0 / 9));
  EXPECT_EQ(rng.below(1), 0U);
}

TEST(RngInteger, ReachesBothEndsAndTheFullRange) {
  Rng rng(10);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(rng.integer(-2, 2));
  EXPECT_EQ(seen, (std::set<std::int64_t>{-2, -1, 0, 1, 2}));
  EXPECT_EQ(rng.integer(5, 5), 5);
  bool negative = false;
  for (int i = 0; i < 64; ++i) negative |= rng.integer(INT64_MIN, INT64_MAX) < 0;
  EXPECT_TRUE(negative);
}

TEST(RngDeathTest, RefusesEmptyRanges) {
  Rng rng(1);
  EXPECT_DEATH(rng.below(0), "a draw below zero");
  EXPECT_DEATH(rng.integer(2, 1), "range of an integer draw is empty");
  EXPECT_DEATH(rng.gamma(0, 1), "positive shape");
  EXPECT_DEATH(rng.poisson(-1), "not negative");
}

TEST(RngChance, IsCertainAtTheEnds) {
  Rng rng(12);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_FALSE(rng.chance(0));
    ASSERT_TRUE(rng.chance(1));
  }
}

// The largest gap between the distribution of `count` draws and `cdf`, times sqrt(count). Kolmogorov: above 1.95 once
// in a thousand.
double kolmogorov_smirnov(const std::function<double()>& draw, const std::function<double(double)>& cdf) {
  constexpr std::size_t kCount = 50'000;
  std::vector<double> values(kCount);
  for (auto& value : values) value = draw();
  std::ranges::sort(values);
  double gap = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double expected = cdf(values[i]);
    gap = std::max({gap, expected - static_cast<double>(i) / kCount, static_cast<double>(i + 1) / kCount - expected});
  }
  return gap * std::sqrt(static_cast<double>(kCount));
}

struct Moments {
  double mean;
  double variance;
};

Moments moments(const std::function<double()>& draw, int count = 200'000) {
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < count; ++i) {
    const double x = draw();
    sum += x;
    squares += x * x;
  }
  const double mean = sum / count;
  return {mean, squares / count - mean * mean};
}

constexpr double kSurprise = 1.95;

TEST(RngExponential, HasItsDistribution) {
  Rng rng(20);
  EXPECT_LT(kolmogorov_smirnov([&] { return rng.exponential(3); }, [](double x) { return 1 - std::exp(-x / 3); }),
            kSurprise);
  // The deviation of the mean is 3/sqrt(200000) = 0.007.
  const auto m = moments([&] { return rng.exponential(3); });
  EXPECT_NEAR(m.mean, 3, 0.03);
  EXPECT_NEAR(m.variance, 9, 0.3);
}

// Beyond 7.697 the ziggurat falls through to its tail: e^-7.697 of two million draws is 908, within four deviations.
TEST(RngExponential, HasItsTail) {
  Rng rng(21);
  int beyond = 0;
  double largest = 0;
  for (int i = 0; i < 2'000'000; ++i) {
    const double x = rng.exponential(1);
    beyond += x > 7.69711747013104972 ? 1 : 0;
    largest = std::max(largest, x);
  }
  EXPECT_NEAR(beyond, 908, 4 * std::sqrt(908.0));
  EXPECT_GT(largest, 11.0);
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

TEST(RngNormal, HasItsDistribution) {
  Rng rng(22);
  EXPECT_LT(kolmogorov_smirnov([&] { return rng.normal(); }, normal_cdf), kSurprise);
  const auto m = moments([&] { return rng.normal(5, 2); });
  EXPECT_NEAR(m.mean, 5, 0.02);
  EXPECT_NEAR(m.variance, 4, 0.06);
}

TEST(RngLogNormal, HasItsDistributionAndMedian) {
  Rng rng(23);
  EXPECT_LT(kolmogorov_smirnov([&] { return rng.log_normal(1, 0.5); },
                               [](double x) { return normal_cdf((std::log(x) - 1) / 0.5); }),
            kSurprise);
}

// With a whole shape the gamma distribution is Erlang's: 1 - e^-x (1 + x + x^2/2).
TEST(RngGamma, HasErlangsDistributionForWholeShapes) {
  Rng rng(24);
  EXPECT_LT(kolmogorov_smirnov([&] { return rng.gamma(3, 2); },
                               [](double x) { return 1 - std::exp(-x / 2) * (1 + x / 2 + x * x / 8); }),
            kSurprise);
}

// With shape 1/2 and scale 2 it is the square of a normal number.
TEST(RngGamma, HasTheChiSquareDistributionForShapeOneHalf) {
  Rng rng(25);
  EXPECT_LT(kolmogorov_smirnov([&] { return rng.gamma(0.5, 2); }, [](double x) { return std::erf(std::sqrt(x / 2)); }),
            kSurprise);
}

TEST(RngGamma, HasItsMoments) {
  Rng rng(26);
  for (const double shape : {0.1, 0.9, 1.0, 2.5, 40.0}) {
    const auto m = moments([&] { return rng.gamma(shape, 0.5); });
    EXPECT_NEAR(m.mean / (shape * 0.5), 1, 0.03) << shape;
    EXPECT_NEAR(m.variance / (shape * 0.25), 1, 0.06) << shape;
  }
}

// Chi-square with 11 degrees of freedom exceeds 31.3 once in a thousand.
TEST(RngPoisson, HasItsDistribution) {
  Rng rng(27);
  constexpr double kMean = 4;
  constexpr int kCount = 100'000;
  std::array<double, 12> counts{};
  for (int i = 0; i < kCount; ++i) counts[std::min<std::uint64_t>(rng.poisson(kMean), 11)] += 1;
  double probability = std::exp(-kMean);
  double left = 1;
  double chi_square = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const double expected = kCount * (k == 11 ? left : probability);
    chi_square += (counts[k] - expected) * (counts[k] - expected) / expected;
    left -= probability;
    probability *= kMean / static_cast<double>(k + 1);
  }
  EXPECT_LT(chi_square, 31.3);
  EXPECT_EQ(rng.poisson(0), 0U);
  const auto m = moments([&] { return static_cast<double>(rng.poisson(300)); }, 20'000);
  EXPECT_NEAR(m.mean, 300, 0.6);
  EXPECT_NEAR(m.variance, 300, 15);
}

TEST(RngShuffle, ReachesEveryOrderEquallyOften) {
  Rng rng(28);
  std::array<double, 24> counts{};
  for (int i = 0; i < 48'000; ++i) {
    std::vector<int> items{0, 1, 2, 3};
    rng.shuffle(items);
    // The order read as a number in the factorial base.
    std::size_t code = 0;
    for (std::size_t a = 0; a < 4; ++a) {
      const auto smaller =
          std::count_if(items.begin() + static_cast<long>(a) + 1, items.end(), [&](int x) { return x < items[a]; });
      code = code * (4 - a) + static_cast<std::size_t>(smaller);
    }
    counts[code] += 1;
  }
  // Chi-square with 23 degrees of freedom exceeds 49.7 once in a thousand.
  double chi_square = 0;
  for (const double c : counts) chi_square += (c - 2000) * (c - 2000) / 2000;
  EXPECT_LT(chi_square, 49.7);
}

TEST(AliasTable, DrawsEachIndexInProportionToItsWeight) {
  Rng rng(30);
  const std::vector<double> weights{1, 0, 5, 0.5, 3.5, 10, 0};
  const AliasTable table(weights);
  ASSERT_EQ(table.size(), weights.size());
  std::vector<double> counts(weights.size());
  for (int i = 0; i < 200'000; ++i) counts[table.draw(rng)] += 1;
  double chi_square = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double expected = 200'000 * weights[i] / 20;
    if (expected == 0) {
      EXPECT_EQ(counts[i], 0) << i;
    } else {
      chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
  }
  EXPECT_LT(chi_square, 18.5);  // Four degrees of freedom, once in a thousand.
}

TEST(AliasTable, NeverDrawsAWeightOfZero) {
  Rng rng(31);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> weights(1 + rng.below(40));
    for (auto& w : weights) w = rng.chance(0.4) ? 0 : rng.exponential(1);
    weights[rng.below(weights.size())] = 1e-9;
    const AliasTable table(weights);
    for (int i = 0; i < 1000; ++i) ASSERT_GT(weights[table.draw(rng)], 0);
  }
}

TEST(AliasTableDeathTest, RefusesWeightsThatMeanNothing) {
  EXPECT_DEATH(AliasTable(std::vector<double>{}), "at least one weight is positive");
  EXPECT_DEATH(AliasTable(std::vector<double>{0, 0}), "at least one weight is positive");
  EXPECT_DEATH(AliasTable(std::vector<double>{1, -1}), "not negative");
  EXPECT_DEATH(AliasTable(std::vector<double>{1, std::nan("")}), "not negative");
  EXPECT_DEATH(AliasTable(std::vector<double>{1e308, 1e308}), "finite");
}

}  // namespace
}  // namespace tangram

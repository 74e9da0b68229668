#include "base/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/rng.h"

namespace tangram {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The reference has 64 bits of mantissa, so its own error (5e-20) does not count.
double relative_error(double value, long double exact) {
  return static_cast<double>(std::abs((static_cast<long double>(value) - exact) / exact));
}

TEST(MathLog, StaysWithinItsStatedErrorOverTheWholeRange) {
  Rng rng(1);
  for (int i = 0; i < 200'000; ++i) {
    // A random sign-free bit pattern: every exponent is as likely as every other, subnormal numbers included.
    const double x = std::bit_cast<double>(rng.next_u64() >> 1);
    if (!std::isfinite(x) || x == 0 || (x > 0.5 && x < 2)) continue;
    ASSERT_LT(relative_error(math::log(x), std::log(static_cast<long double>(x))), 4e-16) << x;
  }
}

TEST(MathLog, StaysWithinItsStatedAbsoluteErrorBesideOne) {
  Rng rng(2);
  for (int i = 0; i < 200'000; ++i) {
    const double x = rng.uniform(0.5, 2);
    const long double exact = std::log(static_cast<long double>(x));
    ASSERT_LT(std::abs(static_cast<long double>(math::log(x)) - exact), 2e-16L) << x;
  }
}

TEST(MathLog, HasTheSpecialValuesOfTheStandard) {
  EXPECT_EQ(math::log(0.0), -kInfinity);
  EXPECT_EQ(math::log(-0.0), -kInfinity);
  EXPECT_EQ(math::log(1.0), 0.0);
  EXPECT_EQ(math::log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(math::log(-1.0)));
  EXPECT_TRUE(std::isnan(math::log(-kInfinity)));
  EXPECT_TRUE(std::isnan(math::log(kNan)));
}

TEST(MathExp, StaysWithinItsStatedErrorOverTheWholeRange) {
  Rng rng(3);
  for (int i = 0; i < 200'000; ++i) {
    const double x = rng.uniform(-708, 709.78);
    ASSERT_LT(relative_error(math::exp(x), std::exp(static_cast<long double>(x))), 1e-15) << x;
  }
}

// Below 2^-1022 a double has fewer bits: half of the smallest positive number is the best that can be asked.
TEST(MathExp, UnderflowsGradually) {
  constexpr double kSmallest = std::numeric_limits<double>::denorm_min();
  for (double x = -745; x < -708.5; x += 0.01) {
    const double expected = static_cast<double>(std::exp(static_cast<long double>(x)));
    ASSERT_LE(std::abs(math::exp(x) - expected), kSmallest + 1e-15 * expected) << x;
  }
}

TEST(MathExp, HasTheSpecialValuesOfTheStandard) {
  EXPECT_EQ(math::exp(0.0), 1.0);
  EXPECT_EQ(math::exp(710.0), kInfinity);
  EXPECT_EQ(math::exp(kInfinity), kInfinity);
  EXPECT_EQ(math::exp(-746.0), 0.0);
  EXPECT_EQ(math::exp(-kInfinity), 0.0);
  EXPECT_TRUE(std::isnan(math::exp(kNan)));
  EXPECT_TRUE(std::isfinite(math::exp(709.78)));
}

TEST(MathExp, UndoesLog) {
  for (double x = 1e-300; x < 1e300; x *= 7.3) {
    // An error of 1e-16 * |log x| in the exponent is an equal relative error of the power.
    EXPECT_NEAR(math::exp(math::log(x)) / x, 1, 3e-16 * (4 + std::abs(std::log(x)))) << x;
  }
}

TEST(MathPow, StaysWithinItsStatedError) {
  Rng rng(4);
  for (int i = 0; i < 50'000; ++i) {
    const double x = math::exp(rng.uniform(-20, 20));
    const double y = rng.uniform(-30, 30);
    const double size = std::abs(y * std::log(x));
    const long double exact = std::pow(static_cast<long double>(x), static_cast<long double>(y));
    ASSERT_LT(relative_error(math::pow(x, y), exact), (2 + size) * 1e-15) << x << " ^ " << y;
  }
}

TEST(MathPow, OfZeroAndToZeroIsThatOfTheStandard) {
  EXPECT_EQ(math::pow(0, 0), 1.0);
  EXPECT_EQ(math::pow(0, 2), 0.0);
  EXPECT_EQ(math::pow(0, -2), kInfinity);
  EXPECT_EQ(math::pow(5, 0), 1.0);
  EXPECT_EQ(math::pow(1, 1e300), 1.0);
}

TEST(MathNormalCdf, StaysWithinItsStatedError) {
  for (double x = -40; x <= 40; x += 0.001) {
    const long double exact = 0.5L * std::erfc(-static_cast<long double>(x) / std::sqrt(2.0L));
    ASSERT_NEAR(math::normal_cdf(x), static_cast<double>(exact), 1e-12) << x;
  }
}

// The lower tail keeps its relative precision too: it is a continued fraction, not a difference.
TEST(MathNormalCdf, KeepsItsDigitsInTheLowerTail) {
  for (double x = -37; x < -3; x += 0.01) {
    const long double exact = 0.5L * std::erfc(-static_cast<long double>(x) / std::sqrt(2.0L));
    ASSERT_LT(relative_error(math::normal_cdf(x), exact), 1e-12) << x;
  }
}

TEST(MathNormalCdf, NeverFalls) {
  double before = 0;
  for (double x = -39; x <= 39; x += 0.001) {
    const double now = math::normal_cdf(x);
    ASSERT_GE(now, before - 1e-15) << x;
    before = now;
  }
  EXPECT_EQ(math::normal_cdf(-kInfinity), 0.0);
  EXPECT_EQ(math::normal_cdf(kInfinity), 1.0);
  EXPECT_EQ(math::normal_cdf(0), 0.5);
  EXPECT_TRUE(std::isnan(math::normal_cdf(kNan)));
}

TEST(MathNormalQuantile, FindsTheTabulatedValues) {
  EXPECT_NEAR(math::normal_quantile(0.5), 0, 1e-12);
  EXPECT_NEAR(math::normal_quantile(0.9), 1.2815515655446004, 1e-9);
  EXPECT_NEAR(math::normal_quantile(0.95), 1.6448536269514722, 1e-9);
  EXPECT_NEAR(math::normal_quantile(0.99), 2.3263478740408408, 1e-9);
  EXPECT_NEAR(math::normal_quantile(0.999), 3.0902323061678132, 1e-9);
  EXPECT_NEAR(math::normal_quantile(1e-15), -7.941345326170997, 1e-8);
  EXPECT_EQ(math::normal_quantile(0), -kInfinity);
  EXPECT_EQ(math::normal_quantile(1), kInfinity);
}

TEST(MathNormalQuantile, UndoesTheDistributionFunction) {
  for (double p = 1e-6; p < 1; p += 1.7e-4) {
    ASSERT_NEAR(math::normal_cdf(math::normal_quantile(p)), p, 1e-9) << p;
  }
}

// The bytes themselves are the promise: a compiler, a flag or a machine that changes one breaks every recorded seed.
TEST(MathBytes, AreTheSameOnEveryMachine) {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  EXPECT_EQ(bits(math::log(2)), 0x3fe62e42fefa39efULL);
  EXPECT_EQ(bits(math::log(0.1)), 0xc0026bb1bbb55515ULL);
  EXPECT_EQ(bits(math::log(3)), 0x3ff193ea7aad030bULL);
  EXPECT_EQ(bits(math::log(1e-300)), 0xc085963447f87fb5ULL);
  EXPECT_EQ(bits(math::log(5e-324)), 0xc0874385446d71c3ULL);
  EXPECT_EQ(bits(math::log(1.0000001)), 0x3e7ad7f2847b6491ULL);
  EXPECT_EQ(bits(math::log(123456.789)), 0x40277281cad8a844ULL);
  EXPECT_EQ(bits(math::exp(1)), 0x4005bf0a8b14576aULL);
  EXPECT_EQ(bits(math::exp(-1)), 0x3fd78b56362cef38ULL);
  EXPECT_EQ(bits(math::exp(0.1)), 0x3ff1aec7b35a00d3ULL);
  EXPECT_EQ(bits(math::exp(0.5)), 0x3ffa61298e1e069cULL);
  EXPECT_EQ(bits(math::exp(100.25)), 0x48f8c39b9134bac3ULL);
  EXPECT_EQ(bits(math::exp(-700.5)), 0x00c4ff475c68ca01ULL);
  EXPECT_EQ(bits(math::exp(709.5)), 0x7fe81e9b4b52d0caULL);
  EXPECT_EQ(bits(math::pow(2.5, 3.5)), 0x4038b48e29793d2eULL);
  EXPECT_EQ(bits(math::normal_cdf(0.5)), 0x3fe62075e232ac76ULL);
  EXPECT_EQ(bits(math::normal_cdf(-1.25)), 0x3fbb0bdd12ba9c28ULL);
  EXPECT_EQ(bits(math::normal_cdf(3.5)), 0x3feffe182436d488ULL);
  EXPECT_EQ(bits(math::normal_cdf(-8)), 0x3cc669d2c90d55ceULL);
  EXPECT_EQ(bits(math::normal_quantile(0.99)), 0x40029c5c4630ff2eULL);
  EXPECT_EQ(bits(math::normal_quantile(0.001)), 0xc008b8cbb7204470ULL);
}

TEST(SineOfTurns, AgreesWithTheSineOfTheLibrary) {
  for (int i = -40; i <= 40; ++i) {
    const double turns = i / 13.0;
    EXPECT_NEAR(math::sine_of_turns(turns), std::sin(2 * math::kPi * turns), 1e-12) << turns;
  }
}

}  // namespace
}  // namespace tangram

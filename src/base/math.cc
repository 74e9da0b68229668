// exp, log and the normal distribution from additions, multiplications and divisions alone.
//
// exp and log reduce their argument to a small interval, where a series of fixed length is exact to about the last bit.
// There are no tables and no branches on the processor, so the same argument gives the same bits on every machine.

#include "base/math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tangram::math {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSqrt2 = 1.41421356237309504880;

// ln 2 in two parts: the first has zeros in its low 32 bits, so that k * kLn2High is exact for |k| < 2^20.
constexpr double kLn2High = 6.93147180369123816490e-01;
constexpr double kLn2Low = 1.90821492927058770002e-10;

// 2^k for -1022 <= k <= 1023, built from its bits.
double power_of_two(int k) { return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + k) << 52); }

// x = mantissa * 2^exponent with mantissa in [sqrt(1/2), sqrt(2)), for finite x > 0.
struct Split {
  double mantissa;
  int exponent;
};

Split split(double x) {
  int exponent = 0;
  if (x < 0x1p-1022) {  // Subnormal numbers have no implicit leading bit: scale them up first.
    x *= 0x1p54;
    exponent = -54;
  }
  const auto bits = std::bit_cast<std::uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  // Centred around 1, so that log(mantissa) is small in size and x slightly below 1 does not cancel against -ln 2.
  if (mantissa >= kSqrt2) {
    mantissa *= 0.5;
    ++exponent;
  }
  return {mantissa, exponent};
}

// The upper tail of the normal distribution at x >= 3, by the continued fraction of Mills' ratio. There the fraction
// converges fast, while the series around zero would need ever more terms. The constant is sqrt(2 pi).
double normal_tail(double x) {
  double fraction = x;
  for (int k = 60; k >= 1; --k) fraction = x + k / fraction;
  return exp(-0.5 * x * x) / (fraction * 2.50662827463100050242);
}

}  // namespace

double log(double x) {
  if (x != x || x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return -kInfinity;
  if (x == kInfinity) return kInfinity;
  const auto [m, k] = split(x);
  // log m = 2 atanh(s), s = (m-1)/(m+1), |s| < 0.1716: the term s^25 / 25 is below 1e-20.
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  const double w = z * z;
  // Even and odd powers of z are two independent chains, as in exp below.
  const double even = 1.0 / 3 + w * (1.0 / 7 + w * (1.0 / 11 + w * (1.0 / 15 + w * (1.0 / 19 + w * (1.0 / 23)))));
  const double odd = 1.0 / 5 + w * (1.0 / 9 + w * (1.0 / 13 + w * (1.0 / 17 + w * (1.0 / 21))));
  const double series = even + z * odd;
  const double log_mantissa = 2 * s + 2 * s * (z * series);
  return k * kLn2High + (log_mantissa + k * kLn2Low);
}

double exp(double x) {
  if (x != x) return x;
  // The logarithms of the largest double and of half the smallest subnormal one, rounded outwards.
  if (x > 709.782712893384) return kInfinity;
  if (x < -745.2) return 0;
  const int k = static_cast<int>(x / kLn2 + (x < 0 ? -0.5 : 0.5));
  const double r = (x - k * kLn2High) - k * kLn2Low;
  // Taylor: |r| <= 0.3466, so r^14 / 14! is below 5e-18. Even and odd powers are two chains that the processor runs
  // side by side.
  const double z = r * r;
  const double even =
      1 + z * (1.0 / 2 +
               z * (1.0 / 24 + z * (1.0 / 720 + z * (1.0 / 40320 + z * (1.0 / 3628800 + z * (1.0 / 479001600))))));
  const double odd =
      1 + z * (1.0 / 6 + z * (1.0 / 120 +
                              z * (1.0 / 5040 + z * (1.0 / 362880 + z * (1.0 / 39916800 + z * (1.0 / 6227020800.0))))));
  const double series = even + r * odd;
  // 2^1024 is not a double, although series * 2^1024 may be one; so the scaling takes two steps. For subnormal results
  // the first step stays normal, so that only the last multiplication rounds.
  if (k > 1023) return series * 0x1p1023 * power_of_two(k - 1023);
  if (k < -1022) return series * power_of_two(k + 100) * 0x1p-100;
  return series * power_of_two(k);
}

double pow(double x, double y) {
  if (y == 0) return 1;
  if (x == 0) return y > 0 ? 0 : kInfinity;
  return exp(y * log(x));
}

double normal_cdf(double x) {
  if (x != x) return x;
  // Below -38 the true value is under 1e-315, where doubles are subnormal.
  if (x < -3) return x < -38 ? 0 : normal_tail(-x);
  if (x > 3) return x > 38 ? 1 : 1 - normal_tail(x);
  // Phi(x) = 1/2 + phi(x) * (x + x^3/3 + x^5/15 + ...): all terms have one sign, so nothing cancels.
  double term = x;
  double sum = x;
  for (int n = 3; n < 120; n += 2) {
    term *= x * x / n;
    sum += term;
  }
  return 0.5 + sum * exp(-0.5 * x * x) / 2.50662827463100050242;
}

double normal_quantile(double p) {
  if (!(p > 0)) return -kInfinity;
  if (!(p < 1)) return kInfinity;
  // Bisection needs no fitted constants and cannot fail; it serves tables and reports, never a hot path.
  double low = -39;
  double high = 39;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    // In the upper half, 1 - Phi(x) is computed as Phi(-x): Phi itself is too close to 1 there to keep digits of the
    // tail.
    const bool below = p < 0.5 ? normal_cdf(middle) < p : normal_cdf(-middle) > 1 - p;
    (below ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

// The argument is folded to a quarter turn and put into a Taylor series.
double sine_of_turns(double turns) {
  double x = turns - std::floor(turns);
  double sign = 1;
  if (x >= 0.5) {
    x -= 0.5;
    sign = -1;
  }
  if (x > 0.25) x = 0.5 - x;
  const double r = x * 2 * kPi;
  double term = r;
  double sum = r;
  // Ten more terms, up to r^21 / 21!: at a quarter turn the next one is below 1e-17.
  for (int n = 2; n < 22; n += 2) {
    term *= -r * r / (n * (n + 1));
    sum += term;
  }
  return sign * sum;
}

}  // namespace tangram::math

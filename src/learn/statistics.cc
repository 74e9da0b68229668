// Quantiles for intervals: conformal (from errors), Student's (from degrees of freedom) and the binomial test of
// misses.

#include "learn/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/math.h"

namespace tangram::learn {

double conformal_quantile(std::vector<double> values, double coverage) {
  TANGRAM_CHECK(!values.empty(), "a quantile needs a value");
  std::ranges::sort(values);
  // The rank ceil((n + 1) * coverage) guarantees the coverage for exchangeable errors, whatever their distribution
  // (Vovk et al., 2005). Beyond n the largest error is all there is.
  const auto rank = static_cast<std::size_t>(std::ceil(static_cast<double>(values.size() + 1) * coverage));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

double student_quantile(double coverage, std::size_t degrees) {
  TANGRAM_CHECK(degrees > 0 && coverage >= 0.5 && coverage < 1, "a quantile of Student's distribution");
  if (degrees == 1) {  // tan(pi c / 2) = 1 / tan(x), by the continued fraction of the tangent, for x up to pi / 4.
    const double x = math::kPi * (1 - coverage) / 2;
    return (1 - x * x / (3 - x * x / (5 - x * x / (7 - x * x / 9)))) / x;
  }
  if (degrees == 2) return coverage * std::sqrt(2 / (1 - coverage * coverage));
  const double z = math::normal_quantile((1 + coverage) / 2);
  const double z2 = z * z;
  const auto n = static_cast<double>(degrees);
  // Fisher's expansion around the normal quantile (Abramowitz and Stegun 26.7.5); one and two degrees have closed
  // forms.
  const double first = (z2 + 1) / (4 * n);
  const double second = ((5 * z2 + 16) * z2 + 3) / (96 * n * n);
  const double third = (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * n * n * n);
  return z * (1 + first + second + third);
}

// The binomial tail, as 1 less the sum of the terms below; each term follows from the one before.
double misses_probability(std::size_t misses, std::size_t count, double coverage) {
  double fewer = 0;
  double term = math::pow(coverage, static_cast<double>(count));  // None at all.
  for (std::size_t k = 0; k < std::min(misses, count + 1); ++k) {
    fewer += term;
    term *= static_cast<double>(count - k) / static_cast<double>(k + 1) * (1 - coverage) / coverage;
  }
  return std::max(0.0, 1 - fewer);
}

}  // namespace tangram::learn

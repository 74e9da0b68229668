#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"
#include "base/math.h"

namespace tangram {

// By value: sorting needs a copy, and callers that no longer need their sample can move it in.
double quantile(std::vector<double> values, double share) {
  TANGRAM_CHECK(!values.empty(), "a quantile needs a value");
  std::ranges::sort(values);
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  // For share 1 there is no value above; the weight of `above` is 0 then, but the index must be valid.
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

double quantile_nearest_rank(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  // Share 0 gives rank 0, which means the smallest value, as rank 1 does.
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

// Hill's expansion (Communications of the ACM 13, algorithm 396, 1970), which is made for few degrees of freedom.
double student_t(double tail, double freedom) {
  TANGRAM_CHECK(tail > 0 && tail < 0.5 && freedom >= 1, "Student's t has a tail and a degree of freedom");
  const double n = freedom;
  const double p = 2 * tail;
  const double a = 1 / (n - 0.5);
  const double b = 48 / (a * a);
  double c = ((20700 * a / b - 98) * a - 16) * a + 96.36;
  const double d = ((94.5 / (b + c) - 3) / b + 1) * std::sqrt(a * math::kPi / 2) * n;
  double x = d * p;
  double y = math::pow(x, 2 / n);
  if (y > 0.05 + a) {
    x = math::normal_quantile(p / 2);
    y = x * x;
    if (n < 5) c += 0.3 * (n - 4.5) * (x + 0.6);
    c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c;
    y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x;
    y = a * y * y;
    y = y > 0.002 ? math::exp(y) - 1 : 0.5 * y * y + y;
  } else {
    y = ((1 / (((n + 6) / (n * y) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4)) * y - 1) * (n + 1) / (n + 2) +
        1 / y;
  }
  return std::sqrt(n * y);
}

}  // namespace tangram

#include "learn/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tangram::learn {

double quantile(std::vector<double> values, double share) {
  TANGRAM_CHECK(!values.empty(), "a quantile needs a value");
  std::ranges::sort(values);
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

double conformal_quantile(std::vector<double> values, double coverage) {
  TANGRAM_CHECK(!values.empty(), "a quantile needs a value");
  std::ranges::sort(values);
  const auto rank = static_cast<std::size_t>(std::ceil(static_cast<double>(values.size() + 1) * coverage));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

}  // namespace tangram::learn

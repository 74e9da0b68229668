#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace tangram {

double quantile(std::vector<double> values, double share) {
  TANGRAM_CHECK(!values.empty(), "a quantile needs a value");
  std::ranges::sort(values);
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

double quantile_nearest_rank(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

}  // namespace tangram

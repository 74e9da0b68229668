#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"

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

}  // namespace tangram

// Robust statistics of repeated runs: outliers are removed by Hampel's rule, then the mean gets a Student interval.
//
// Timings have a long upper tail (interrupts, clock changes), and one such run would widen the interval for dozens of
// further runs. A median is not moved by them, so it decides what is an outlier.

#include "measure/timing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"

namespace tangram::measure {
namespace {

// Requires at least one value. O(n).
double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::vector<double> without_outliers(std::span<const double> runs_ms) {
  const std::vector<double> all(runs_ms.begin(), runs_ms.end());
  const double median = median_of(all);
  std::vector<double> distances;
  for (const double run : all) distances.push_back(std::abs(run - median));
  // For normal runs the median distance is 0.6745 deviations.
  const double deviation = std::max(1.4826 * median_of(distances), kDeviationMin * median);
  std::vector<double> kept;
  std::ranges::copy_if(all, std::back_inserter(kept),
                       [&](double run) { return std::abs(run - median) <= kOutlierDeviations * deviation; });
  // If a quarter of the runs are "outliers", the model has two speeds, and removing one would report a wrong mean.
  const auto left_out = static_cast<double>(all.size() - kept.size());
  return left_out > kOutlierShareMax * static_cast<double>(all.size()) ? all : kept;
}

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double deviation_of(std::span<const double> values, double mean) {
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

}  // namespace

double student_quantile_95(std::size_t degrees_of_freedom) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // The expansion below is inaccurate for few degrees of freedom, so these values come from the table.
  constexpr double kExact[] = {kInfinity, 12.706, 4.303, 3.182};
  if (degrees_of_freedom < std::size(kExact)) return kExact[degrees_of_freedom];
  // Fisher's expansion around the normal quantile z = 1.960 (Abramowitz and Stegun 26.7.5).
  constexpr double z = 1.959963984540054;
  constexpr double z3 = z * z * z;
  constexpr double z5 = z3 * z * z;
  constexpr double z7 = z5 * z * z;
  const double n = static_cast<double>(degrees_of_freedom);
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

Timing summarise(std::span<const double> runs_ms) {
  TANGRAM_CHECK(!runs_ms.empty(), "there is at least one run");
  const std::vector<double> kept = without_outliers(runs_ms);
  Timing timing{.mean_ms = mean_of(kept), .runs = runs_ms.size(), .outliers = runs_ms.size() - kept.size()};
  if (kept.size() == 1) {
    timing.half_width = std::numeric_limits<double>::infinity();
    return timing;
  }
  timing.spread_ms = deviation_of(kept, timing.mean_ms);
  const double error_ms = timing.spread_ms / std::sqrt(static_cast<double>(kept.size()));
  timing.half_width = student_quantile_95(kept.size() - 1) * error_ms / timing.mean_ms;
  return timing;
}

}  // namespace tangram::measure

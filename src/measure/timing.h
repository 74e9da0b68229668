// Repeated runs of one point, and what they say together.
#pragma once

#include <cstddef>
#include <span>

namespace tangram::measure {

// A run further than this many deviations from the median is an outlier. The deviation is estimated by the median
// distance from the median, times 1.4826, so that outliers do not widen their own limits (Hampel's rule)...
inline constexpr double kOutlierDeviations = 5;
// ... but is never taken to be less than this share of the median: equal runs must not outlaw one that differs a
// little.
inline constexpr double kDeviationMin = 0.005;
// If more than this share of the runs lie outside, they are how the model behaves, and none is left out.
inline constexpr double kOutlierShareMax = 0.25;

struct Timing {
  double mean_ms = 0;
  double spread_ms = 0;   // Standard deviation of the runs.
  double half_width = 0;  // Of the 95 % confidence interval of the mean, as a share of the mean.
  std::size_t runs = 0;   // All of them.
  std::size_t outliers = 0;

  bool operator==(const Timing&) const = default;
};

// Mean, spread and interval of the runs that are no outliers. The interval is Student's, so it needs two runs; with one
// it is infinite. There is at least one run.
Timing summarise(std::span<const double> runs_ms);

// The quantile of Student's distribution for a two-sided 95 % interval. Relative error under 1 % from three degrees of
// freedom on.
double student_quantile_95(std::size_t degrees_of_freedom);

}  // namespace tangram::measure

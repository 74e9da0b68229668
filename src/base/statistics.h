// Quantiles of small samples, in the two definitions that the program uses, and of Student's t.
//
// They differ: the median of {1, 2, 3, 10} is 2.5 by `quantile` and 2 by `quantile_nearest_rank`. Errors and thresholds
// are interpolated, so that they move smoothly with the sample. Times that a report quotes are nearest ranks, so that
// the quoted time is one that was measured.
#pragma once

#include <vector>

namespace tangram {

// Linear between the order statistics: share 0 is the smallest value, 1 the largest. At least one value.
double quantile(std::vector<double> values, double share);

// The smallest value that at least `share` of all values do not exceed; 0 if there are no values.
double quantile_nearest_rank(std::vector<double> values, double share);

// The value that Student's t with `freedom` degrees exceeds with probability `tail`, 0 < tail < 0.5. Relative error under
// 1 % for tails down to 1e-5 and at least three degrees of freedom.
double student_t(double tail, double freedom);

}  // namespace tangram

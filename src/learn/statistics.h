// Quantiles of small samples.
#pragma once

#include <vector>

namespace tangram::learn {

// Linear between the order statistics; 0 <= share <= 1, at least one value.
double quantile(std::vector<double> values, double share);

// The smallest value that, for exchangeable values, covers a new one with at least `coverage`: the order statistic
// ceil((n + 1) * coverage), or the largest where there are too few.
double conformal_quantile(std::vector<double> values, double coverage);

}  // namespace tangram::learn

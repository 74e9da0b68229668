// Quantiles and probabilities by which a fitted model states how far it may be wrong.
#pragma once

#include <cstddef>
#include <vector>

#include "base/statistics.h"

namespace tangram::learn {

using tangram::quantile;

// The smallest value that, for exchangeable values, covers a new one with at least `coverage`: the order statistic
// ceil((n + 1) * coverage), or the largest where there are too few.
double conformal_quantile(std::vector<double> values, double coverage);

// Half the width, in deviations, of the middle of Student's distribution that holds `coverage`, 0.5 <= coverage < 1.
// With one and two degrees of freedom exact; from three on an expansion, within 1 % at 95 % and 15 % at 99.9 %.
double student_quantile(double coverage, std::size_t degrees);

// How probable it is that at least `misses` of `count` independent chances of 1 - `coverage` come true.
double misses_probability(std::size_t misses, std::size_t count, double coverage);

}  // namespace tangram::learn

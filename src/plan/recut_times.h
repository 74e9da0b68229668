// How long cuts take, from timed runs.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/transition.h"

namespace tangram::plan {

// The runs of one action on layouts with so many slices, summed up.
struct TimedRecut {
  std::size_t slices = 1;  // At least one.
  double runs = 1;
  double median_ms = 0;
};

// For RecutTimes, by number of slices from one on: the medians, weighted by their runs. A number without a timed run
// takes as long as the next smaller one, and numbers below the first timed one as long as that.
std::vector<double> medians_ms(const std::vector<TimedRecut>& recuts);

// The times in a day that passes `speed` times as fast (core/day.h): all divided by it. `speed` is positive.
RecutTimes at_speed(RecutTimes times, double speed);

}  // namespace tangram::plan

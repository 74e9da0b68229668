// The ownership of GPUs over time: steps of equal length for a picture, and the sum over the whole run.
#pragma once

#include <vector>

#include "lab/ownership.h"

namespace tangram::lab {

class OwnershipTimeline {
 public:
  // The number of steps stays below this: a run that goes on long after the last request makes steps longer, not more.
  // Even, because steps are joined in pairs.
  static constexpr std::size_t kStepsMax = 960;

  // Steps last `step_s`, or up to the first call at or after that.
  explicit OwnershipTimeline(double step_s) : step_s_(step_s) {}

  // The GPUs were owned like `now` from `from_s` to `until_s`. Spans follow each other without gaps, from 0 on.
  void add(const Ownership& now, double from_s, double until_s);

  // Means over each step that is complete.
  const std::vector<Ownership>& steps() const { return steps_; }
  // GPU-hours over everything that was added.
  const Ownership& gpu_hours() const { return gpu_hours_; }

 private:
  double step_s_;
  Ownership open_;  // GPU-seconds of the step that is not complete; `at_s` is when it began.
  std::vector<Ownership> steps_;
  Ownership gpu_hours_;
};

}  // namespace tangram::lab

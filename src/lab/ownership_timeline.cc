// A time line of bounded size. When it is full, neighbouring steps are joined and steps become twice as long, so memory
// stays constant however long a run takes, and adding costs constant time on average.

#include "lab/ownership_timeline.h"

#include <cmath>

namespace tangram::lab {
namespace {

void add_weighted(Ownership& sum, const Ownership& now, double weight) {
  sum.training += now.training * weight;
  sum.running += now.running * weight;
  sum.guarded += now.guarded * weight;
  sum.asleep += now.asleep * weight;
  sum.free += now.free * weight;
}

}  // namespace

void OwnershipTimeline::add(const Ownership& now, double from_s, double until_s) {
  const double seconds = until_s - from_s;
  add_weighted(open_, now, seconds);
  add_weighted(gpu_hours_, now, seconds / 3600);
  // A step ends at the first call at or after its length, so it can be longer than step_s_; the division is by the real
  // length.
  const double passed = until_s - open_.at_s;
  if (passed < step_s_) return;
  steps_.push_back({open_.at_s, open_.training / passed, open_.running / passed, open_.guarded / passed,
                    open_.asleep / passed, open_.free / passed});
  open_ = {};
  open_.at_s = std::round(until_s * 1e6) / 1e6;  // Removes the rounding error of converting from nanoseconds.
  if (steps_.size() < kStepsMax) return;
  steps_ = coarser(steps_, open_.at_s);
  step_s_ *= 2;
}

}  // namespace tangram::lab

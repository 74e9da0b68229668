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
  const double passed = until_s - open_.at_s;
  if (passed < step_s_) return;
  steps_.push_back({open_.at_s, open_.training / passed, open_.running / passed, open_.guarded / passed,
                    open_.asleep / passed, open_.free / passed});
  open_ = {};
  open_.at_s = std::round(until_s * 1e6) / 1e6;  // What a product of nanoseconds adds is no time.
  if (steps_.size() < kStepsMax) return;
  steps_ = coarser(steps_, open_.at_s);
  step_s_ *= 2;
}

}  // namespace tangram::lab

// Training on what inference leaves of its GPUs: slices that a plan does not use, beside the lending of whole GPUs.
#pragma once

#include <map>
#include <string>

#include "core/measurement.h"
#include "core/plan.h"

namespace tangram::lab {

// How fast training runs on a slice of so many compute slices, in parts of a whole GPU: the mean over the measured
// models, each with its best batch, 0 for a model that does not fit. Empty where no model was measured on a whole GPU.
std::map<int, double> training_speeds(const Measurements& iterations);

// The slices that fit beside those of `device` and train fastest together.
Layout leftover_slices(const PlannedDevice& device, const std::map<int, double>& speeds);

// An hour of one plan, in which training gets the same work done both ways.
struct SliceLending {
  double training = 0;          // Done on leftover slices, in hours of whole GPUs.
  double gpu_hours_slices = 0;  // Of the plan, training included.
  double gpu_hours_whole = 0;   // Of the plan, and of whole GPUs for the same training.
  int leftover = 0;             // Compute slices that are lent.
};

SliceLending lend_leftovers(const Plan& plan, const std::map<int, double>& speeds);

}  // namespace tangram::lab

// How fast training runs on slices, and which slices fit into what a plan leaves uncut.
#pragma once

#include <map>

#include "core/measurement.h"
#include "core/plan.h"

namespace tangram::lab {

enum class LendMode {
  whole_gpu,  // Only GPUs of which nothing is needed.
  slices,     // Every slice that is not needed, and what the plan leaves uncut.
};

// How fast training runs on a slice of so many compute slices, in parts of a whole GPU: the mean over the measured
// models, each with its best batch, 0 for a model that does not fit. Empty where no model was measured on a whole GPU.
std::map<int, double> training_speeds(const Measurements& iterations);

// The entry of `speeds`; 0 where none was measured: training does not run on such a slice.
double speed_of(const std::map<int, double>& speeds, int compute_slices);

// The slices that fit beside those of `device` and train fastest together.
Layout leftover_slices(const PlannedDevice& device, const std::map<int, double>& speeds);

// How fast training runs on a GPU of its own that is cut for training, in parts of an uncut one: the sum over the
// slices of the fastest cut. At least the speed of the uncut GPU.
double best_cut_speed(const Geometry& geometry, const std::map<int, double>& speeds);

}  // namespace tangram::lab

// What allocators ask that are told the truth: Optimus, AFS and Aryl know step times and iterations left.
#pragma once

#include "train/allocator.h"

namespace tangram::train {

// A step with the user's batch on so many GPUs, packed on as few nodes as possible.
double oracle_step_s(const JobView& job, int replicas, int gpus_per_node);
// Iterations that the job still has to do with the user's batch, at least one.
double oracle_iterations_left(const JobView& job);
// The number of GPUs that a job with a fixed batch can use.
int oracle_replicas_max(const JobView& job);

}  // namespace tangram::train

// The true running time of a job, for the allocators whose papers assume that it is known.
//
// Optimus, AFS and Aryl plan with step times and iterations left. Their authors estimate them; here they are read from
// the application itself, so that a comparison is with the best that those allocators could do. No other allocator may
// use this: a real cluster does not know it.
#pragma once

#include "train/allocator.h"

namespace tangram::train {

// Seconds of one step with the user's batch on so many GPUs, packed on as few nodes as possible.
double true_step_s(const JobView& job, int replicas, int gpus_per_node);
// Iterations that the job still has to do with the user's batch, at least one.
double true_iterations_left(const JobView& job);
// The number of GPUs that a job whose batch is fixed can use: each gets at least the smallest local batch.
int fixed_batch_replicas_max(const JobView& job);

}  // namespace tangram::train

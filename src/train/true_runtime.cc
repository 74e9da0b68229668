#include "train/true_runtime.h"

#include <algorithm>

namespace tangram::train {

// Full nodes first, the rest on the last one. Each pass of accumulation computes but does not synchronise.
double true_step_s(const JobView& job, int replicas, int gpus_per_node) {
  const Application& app = *job.application;
  Placement placement;
  for (int left = replicas; left > 0; left -= gpus_per_node) placement.push_back(std::min(left, gpus_per_node));
  const BatchChoice choice = split_batch(limits_of(app), job.batch_asked, replicas);
  const StepTime time = app.step_time(placement, choice.local_batch);
  return time.step_s + (time.step_s - time.sync_s) * choice.accumulation;
}

double true_iterations_left(const JobView& job) {
  const int last = job.application->epochs() - 1;
  // The last epoch has no later measurement to subtract from.
  if (job.epoch >= last) return 1;
  return job.application->iterations(job.batch_asked, last) - job.application->iterations(job.batch_asked, job.epoch);
}

int fixed_batch_replicas_max(const JobView& job) {
  // Such a job fits its largest batch on one worker and gains nothing from a second.
  if (job.application->runs_alone()) return 1;
  return std::max(job.batch_asked / job.application->local_batch_min(), 1);
}

}  // namespace tangram::train

// A cluster that inference and training share, simulated: DeepBoot's published results, and ours beside them.
//
// Inference requests hold a whole GPU each for their duration; their replicas stay warm for a while. The other GPUs are
// on loan to elastic training and come back the moment that a request needs one. Time advances by whole seconds.
//
// The parts: InferenceRequests (the requests and their queue), InferenceGpus (replicas and their GPUs), ElasticTraining
// (jobs and rounds) and GpuFinder (which GPU a request gets). The cluster owns one of each and advances the time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/shared_run.h"
#include "lab/ownership.h"
#include "lab/training_data.h"
#include "train/application.h"

namespace tangram::experiments {

struct SharedResult {
  std::vector<double> jcts_s;       // Of training jobs, in their order.
  std::vector<double> overheads_s;  // Of inference requests: completion less submission less duration.
  double jct_mean_s = 0;
  double jct_p99_s = 0;
  double restarts_per_job = 0;
  std::int64_t reclaims = 0;
  double overhead_mean_s = 0;
  double overhead_p99_s = 0;
  double gpu_utilisation = 0;  // Training and running requests, of all GPU-seconds until the last job ended.
  std::int64_t rounds = 0;
  std::int64_t leases = 0;               // GPUs lent to training,
  std::int64_t leases_ended = 0;         // and those that came back.
  std::vector<lab::Ownership> timeline;  // Once a round.
  // The name of a job or request that had not ended when kClusterTimeMax_s were over; the figures mean nothing then.
  // Empty where all did.
  std::string unfinished;
};

SharedResult run_shared(const train::Applications& applications, const std::vector<formats::ClusterJob>& jobs,
                        const SharedRun& run);

}  // namespace tangram::experiments

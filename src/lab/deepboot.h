// A cluster that inference and training share, simulated: DeepBoot's published results and better.
//
// Inference requests hold a whole GPU each for their duration; their replicas stay warm for a while. The other GPUs are
// on loan to elastic training and come back the moment that a request needs one. Time goes by whole seconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/training_data.h"
#include "train/allocator.h"
#include "train/keep_warm.h"
#include "train/reclaim.h"
#include "train/restart.h"

namespace tangram::lab {

// What the scenario says about one kind of application, by the name that its jobs carry.
struct SharingCosts {
  train::RestartCost restart;  // Of training.
  double cold_start_s = 6;     // Of inference.
};

// Those that DeepBoot measured; any other application gets the mean of them.
SharingCosts sharing_costs(const std::string& application);

struct SharedRun {
  std::string allocator = "deepboot";
  int nodes = 16;
  int gpus_per_node = 4;
  double interval_s = 60;  // Between rounds of training.
  train::RestartKind restart = train::RestartKind::fast;
  train::KeepWarmOptions keep_warm;
  train::ReclaimKind reclaim = train::ReclaimKind::least_loss;
  bool prompt = false;          // A round whenever a job comes or goes, and requests are placed at once always.
  bool learn_together = false;  // Jobs of one application share what they know of its step times.
  int reserve = 0;              // GPUs that are never lent.
  train::AllocatorOptions options;
};

// Who had the GPUs, in GPU-seconds or at an instant.
struct Ownership {
  double at_s = 0;
  double training = 0;
  double running = 0;
  double guarded = 0;
  double asleep = 0;
  double free = 0;
};

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
  std::int64_t leases = 0;          // GPUs lent, each until it came back.
  std::vector<Ownership> timeline;  // Once a round.
};

SharedResult run_shared(const train::Applications& applications, const std::vector<formats::Job>& jobs,
                        const SharedRun& run);

}  // namespace tangram::lab

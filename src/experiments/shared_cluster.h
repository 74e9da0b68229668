// A cluster that inference and training share, simulated: DeepBoot's published results and better.
//
// Inference requests hold a whole GPU each for their duration; their replicas stay warm for a while. The other GPUs are
// on loan to elastic training and come back the moment that a request needs one. Time goes by whole seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/ownership.h"
#include "lab/training_data.h"
#include "train/allocator.h"
#include "train/keep_warm.h"
#include "train/reclaim.h"
#include "train/restart.h"

namespace tangram::experiments {

// What the scenario says about one kind of application, by the name that its jobs carry.
struct SharingCosts {
  train::RestartCost restart;  // Of training.
  double cold_start_s = 6;     // Of inference.
};

// Those that DeepBoot measured; any other application gets the mean of them.
SharingCosts sharing_costs(const std::string& application);

// Warm replicas that wait do not need a GPU each: on slices of one GPU several applications wait together. A request
// gets a whole GPU, to which its replica is copied from the slice.
struct PackedWarm {
  int slots = 7;         // Replicas on one GPU: slices 1g.10gb of an A100-80GB.
  double start_s = 1.5;  // From its slice to a GPU of its own: up to 10 GB copied, and a context made.
  double margin = 1;     // GPUs kept in hand above the mean need of requests, in standard deviations.
};

struct SharedRun {
  std::string allocator = "deepboot";
  int nodes = 16;
  int gpus_per_node = 4;
  double interval_s = 60;  // Between rounds of training.
  train::RestartKind restart = train::RestartKind::fast;
  train::KeepWarmOptions keep_warm;
  train::ReclaimKind reclaim = train::ReclaimKind::least_loss;
  bool prompt = false;               // A round whenever a job comes or goes, and requests are placed at once always.
  bool learn_together = false;       // Jobs of one application share what they know of its step times.
  std::optional<PackedWarm> packed;  // Replicas that wait share GPUs.
  train::AllocatorOptions options;
};

// DeepBoot as published: its knapsack once a minute, its timer, least loss, fast restarts.
SharedRun deepboot_run();
// Ours.
SharedRun tangram_run();

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

SharedResult run_shared(const train::Applications& applications, const std::vector<formats::Job>& jobs,
                        const SharedRun& run);

}  // namespace tangram::experiments

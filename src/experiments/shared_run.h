// How a shared cluster is run: its size, its policies, and what starting costs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/allocator.h"
#include "train/keep_warm.h"
#include "train/reclaim.h"
#include "train/restart.h"

namespace tangram::experiments {

// What starting costs for one kind of application.
struct SharingCosts {
  train::RestartCost restart;  // Of training.
  double cold_start_s = 6;     // Of inference.
};

// Those that DeepBoot measured; any other application gets the mean of them. Jobs name the application, and requests
// number it: "infer-bert-2" is the second application of the kind "bert".
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
  bool prompt = false;  // A round whenever a job comes or goes, and requests are placed at once always.
  // A pending request takes the first replica of its application that is ready. False: only the one that was started
  // for it, even if another becomes idle before.
  bool first_ready = false;
  bool learn_together = false;       // Jobs of one application share what they know of its step times.
  std::optional<PackedWarm> packed;  // Replicas that wait share GPUs.
  train::AllocatorOptions options;

  int gpus() const { return nodes * gpus_per_node; }
};

// DeepBoot as published: its knapsack once a minute, its timer, least loss, fast restarts.
SharedRun deepboot_run();
// Ours.
SharedRun tangram_run();

// One of the two with one part taken out or exchanged, to show what that part is worth.
struct AblatedRun {
  std::string options;  // Names the run: "whole_gpu_no_work_left".
  SharedRun run;
};
// Ours without each of its parts, then DeepBoot with our keep-warm, and with everything of ours but the allocator.
std::vector<AblatedRun> ablated_runs();

}  // namespace tangram::experiments

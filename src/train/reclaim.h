// Which GPU training gives back when a request has none.
#pragma once

#include <optional>
#include <span>

#include "base/rng.h"
#include "train/allocator.h"

namespace tangram::train {

enum class ReclaimKind {
  least_loss,  // ATS-I: where the sum of speed-ups falls least.
  cheapest,    // The same, with the restart of the job priced in.
  random,
  server,  // Aryl: a node of the inference half, all of whose training leaves.
};

// One GPU of one job on one node.
struct Reclaim {
  std::size_t job = 0;  // Index into the jobs.
  int node = 0;
};

// The GPU to take, if training has any. `jobs` are asked with their allocations; `gpus` are all of the cluster, and
// `tenants` all that share it, which says what a fair share is.
std::optional<Reclaim> choose_reclaim(ReclaimKind kind, std::span<const JobView> jobs, int gpus, int tenants, int nodes,
                                      Rng& rng);

// The same on one node, whose GPU is needed and no other: by least loss, with restarts priced in.
std::optional<Reclaim> choose_reclaim_on(int node, std::span<const JobView> jobs, int gpus, int tenants);

}  // namespace tangram::train

// Finds a GPU for a request that has none.
#pragma once

#include <cstdint>
#include <optional>

#include "base/rng.h"
#include "experiments/elastic_training.h"
#include "experiments/inference_gpus.h"
#include "experiments/shared_run.h"

namespace tangram::experiments {

// The order of preference: an empty GPU, one whose replica sleeps, one that training gives back, and for a prompt
// scheduler one whose replica is guarded. Among nodes, the one with the least training comes first.
class GpuFinder {
 public:
  explicit GpuFinder(const SharedRun& run) : run_(run), rng_(Rng(run.options.seed).stream("reclaim")) {}

  // The node of a GPU that is empty now; nothing where there is none to be had. Takes it from `training` or from `gpus`
  // if it must. `pending` requests compete for the cluster with all that have a GPU, which says what a fair share is.
  std::optional<int> find(TrainingDraft& training, InferenceGpus& gpus, std::size_t pending, double now_s);

  // GPUs that training gave back.
  std::int64_t reclaims() const { return reclaims_; }

 private:
  // Nodes that inference may use, those with the least training first.
  std::vector<int> nodes_by_training(const std::vector<int>& training) const;
  // Aryl moves whole servers: training leaves a node that inference uses. Under other policies nothing happens.
  int empty_server(TrainingDraft& training, int node);

  SharedRun run_;
  Rng rng_;
  std::int64_t reclaims_ = 0;
};

}  // namespace tangram::experiments

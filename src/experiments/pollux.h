// The published results of Pollux (OSDI'21), made again: jobs of a workload on a cluster of whole GPUs, one allocator.
#pragma once

#include <string>
#include <vector>

#include "lab/training_data.h"
#include "train/allocator.h"

namespace tangram::experiments {

struct PolluxRun {
  std::string workload;   // Its name, for the answer.
  std::string allocator;  // Of train::allocators().
  int nodes = 16;
  int gpus_per_node = 4;
  double interval_s = 60;
  double restart_s = 30;
  double interference = 0;   // Slow-down of jobs of several nodes that share a node.
  bool spread_apart = true;  // The allocator keeps such jobs apart.
  train::AllocatorOptions options;
};

struct PolluxResult {
  std::vector<double> jcts_s;  // In the order of the jobs.
  double jct_mean_s = 0;
  double restarts_per_job = 0;
  double end_s = 0;
  // The name of a job that had not ended when kClusterTimeMax_s were over; the figures mean nothing then. Empty where
  // all did.
  std::string unfinished;
};

// `jobs` are training jobs whose applications are all known.
PolluxResult run_pollux(const train::Applications& applications, const std::vector<formats::ClusterJob>& jobs,
                        const PolluxRun& run);

}  // namespace tangram::experiments

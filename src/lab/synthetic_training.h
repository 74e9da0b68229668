// Training applications and jobs that are described, not measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/jobs_file.h"
#include "train/application.h"

namespace tangram::lab {

// An application by a formula: a step takes fixed_ms + sample_ms for each sample of a worker, and synchronising takes
// sync_local_ms within a node and sync_nodes_ms between nodes, a tenth more for each worker beyond two.
struct SyntheticApplication {
  std::string name;
  int epochs = 10;
  double epoch_steps = 500;  // Steps of the smallest batch in an epoch.
  int batch_min = 32;
  int batch_max = 1024;
  int worker_batch_max = 128;
  double fixed_ms = 20;
  double sample_ms = 2;
  double sync_local_ms = 15;
  double sync_nodes_ms = 40;
  double noise = 10;           // Variance over square of the gradient, at the smallest batch: how well batches scale.
  double restart_full_s = 30;  // Stop, start and load everything.
  double restart_fast_s = 3;   // Only the group is rebuilt.
};

train::Application application_of(const SyntheticApplication& synthetic);

// Poisson arrivals of jobs.
struct SyntheticJobs {
  int count = 20;
  double gap_mean_s = 300;
  std::vector<std::string> applications;  // Drawn from evenly; a name listed twice is drawn twice as often. None: all.
};

std::vector<formats::ClusterJob> jobs_of(const SyntheticJobs& synthetic, const train::Applications& applications,
                                         std::uint64_t seed);

}  // namespace tangram::lab

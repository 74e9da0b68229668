// The training data of Pollux and DeepBoot: applications from traces, and workloads of jobs.
#pragma once

#include <string>
#include <vector>

#include "experiments/data.h"
#include "experiments/runner.h"
#include "lab/training_data.h"

namespace tangram::experiments {

// A workload file, by its name without ".csv".
struct TrainingWorkload {
  std::string name;
  std::vector<formats::ClusterJob> jobs;
  lab::JobsOrigin origin;
};

// The applications whose traces are in `pollux/traces`.
Result<train::Applications> applications_of(const Folder& traces);

// Every file of `folder`, read in the format called `format`. Their jobs are of known applications and fit into a
// cluster of `gpus`. An empty file is left out with a warning; at least one is not.
struct WorkloadRules {
  std::string format;
  const train::Applications& applications;
  int gpus = 64;
};
Result<std::vector<TrainingWorkload>> workloads_of(const Folder& folder, const WorkloadRules& rules, Runner& runner);

// The job or request called `job` had not ended after the longest time that is simulated. `under` says which run.
Error unfinished_error(const std::vector<TrainingWorkload>& workloads, const std::string& workload,
                       const std::string& job, const std::string& under);

}  // namespace tangram::experiments

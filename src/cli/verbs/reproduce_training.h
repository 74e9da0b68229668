// The results `pollux`, `deepboot` and `slices` of `tangram reproduce`: training, alone and beside inference.
#pragma once

#include <string>
#include <vector>

#include "cli/session.h"
#include "lab/training_data.h"

namespace tangram::cli {

struct TrainingOptions {
  std::string data;    // The folder with the public data.
  bool full = false;   // Add the sweeps that take longer.
  bool quick = false;  // Only the smallest workload, and a short search.
  int seeds = 0;       // 0: the usual number.
  std::string report;  // Where a page with pictures goes; empty: nowhere.
};

// A workload file, by its name without ".csv".
struct TrainingWorkload {
  std::string name;
  std::vector<formats::Job> jobs;
  lab::JobsOrigin origin;
};

// The applications whose traces stand in `pollux/traces` below `data`.
Result<train::Applications> load_training_applications(const std::string& data);
// Every CSV file of `folder` below `data`, by name, read in the format called `format`. Their jobs are of known
// applications and fit into a cluster of `gpus`. An empty file is left out with a warning.
Result<std::vector<TrainingWorkload>> load_training_workloads(Session& session, const std::string& data,
                                                              const std::string& folder, const std::string& format,
                                                              const train::Applications& applications, int gpus);

// The job or request called `job` had not ended after the longest time that is simulated. `under` says which run.
Error unfinished_error(const std::vector<TrainingWorkload>& workloads, const std::string& workload,
                       const std::string& job, const std::string& under);

ExitCode reproduce_pollux(Session& session, const TrainingOptions& options);
ExitCode reproduce_deepboot(Session& session, const TrainingOptions& options);
ExitCode reproduce_slices(Session& session, const TrainingOptions& options);

}  // namespace tangram::cli

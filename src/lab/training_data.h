// Training applications and jobs, from the rows of their files.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "formats/jobs_file.h"
#include "formats/training_file.h"
#include "train/application.h"

namespace tangram::lab {

Result<train::Applications> training_applications(const std::vector<formats::TrainingRow>& rows);

// The file that holds jobs, and the line of each of them in their order; for messages.
struct JobsOrigin {
  std::string path;
  std::vector<int> lines;

  // "jobs.csv:12", or the path alone where the line is not known.
  std::string at(std::size_t job) const;
};

// Every application that the jobs name must be there.
Result<Nothing> check_applications(const JobsOrigin& origin, const std::vector<formats::ClusterJob>& jobs,
                                   const train::Applications& applications);

// No simulated cluster runs longer than a year.
inline constexpr double kClusterTimeMax_s = 365.0 * 86400;

// A job that asks for more than `gpus` never starts under a scheduler that keeps what users ask for, and one that comes
// or lasts beyond kClusterTimeMax_s never ends.
Result<Nothing> check_jobs_fit(const JobsOrigin& origin, const std::vector<formats::ClusterJob>& jobs, int gpus);

}  // namespace tangram::lab

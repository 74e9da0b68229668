// The training jobs of a server, as `tangram train submit | list | show | logs | cancel` asks for them.
#pragma once

#include <string>

#include "cli/server_options.h"

namespace tangram::cli {

struct TrainingJobsQuestion {
  std::string action;
  std::string target;    // The file of submit, the name of a job otherwise; list needs none.
  bool follows = false;  // logs: until the job has ended.
};

// True for the actions that ask a server.
bool asks_for_training_jobs(const std::string& action);
Result<ExitCode> ask_for_training_jobs(Session& session, const ServerOptions& server,
                                       const TrainingJobsQuestion& question);

}  // namespace tangram::cli

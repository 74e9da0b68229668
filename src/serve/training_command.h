// What people ask of the training jobs of a server, over the admin port.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "host/http_parser.h"
#include "serve/gateway.h"

namespace tangram::serve {

class TrainingDesk;

// Routes what follows /training at the admin port: GET "" lists, GET "/NAME" shows, GET "/NAME/logs/OFFSET" reads what
// the job has printed, POST "" submits, POST "/NAME/cancel" cancels.
Target route_training(host::HttpMethod method, std::string_view rest);
// Answers it. `desk` is null where the server does not train. Submitting runs a command, so it needs more than to reach
// the port: either access control has let the caller through (`known`), or the body begins with the comment
// "# key: SECRET", where the secret is in a file that only the server's user can read. Any thread.
Reply answer_training(TrainingDesk* desk, bool known, const Target& target, std::string_view body);

// For /status, as JSON: jobs by state, slices, lends, recalls and how long the last thousand of these took.
std::string training_status(const TrainingDesk& desk);
// Families of metrics.
std::string training_metrics(const TrainingDesk& desk);

}  // namespace tangram::serve

// A running server, as `tangram status` and `tangram top` show it.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/server_options.h"
#include "cli/terminal.h"
#include "cli/yaml.h"

namespace tangram::cli {

// Asks the server at its admin interface.
Result<Json> ask_status(const ServerOptions& options);

// Services with their promises, slices with their load.
std::string status_text(const Json& status, const Terminal& terminal);

}  // namespace tangram::cli

// A running server, as `tangram status` and `tangram top` show it.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/server_options.h"
#include "cli/terminal.h"
#include "report/yaml.h"

namespace tangram::cli {

// Asks the server at its admin interface.
Result<report::Json> ask_status(const ServerOptions& options);

// Services with their promises, slices with their load.
std::string status_text(const report::Json& status, const Terminal& terminal);

}  // namespace tangram::cli

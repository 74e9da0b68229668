// The status of a running server, asked for over its admin interface.
#pragma once

#include "base/result.h"
#include "cli/server_options.h"
#include "report/status_view.h"
#include "report/yaml.h"

namespace tangram::cli {

// The answer of the server's admin interface to GET /status.
Result<report::Json> ask_status(const ServerOptions& options);

// That answer as a value for the tables. Requires every key that a server of this version sends.
report::ServerStatus server_status(const report::Json& status);

}  // namespace tangram::cli

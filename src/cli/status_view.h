// A running server, as `tangram status` and `tangram top` show it.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/terminal.h"
#include "cli/yaml.h"

namespace tangram::cli {

// What to say where nobody answers: how to start a server, and how to name one that is elsewhere.
Error no_server(const Error& error, const std::string& address, int port);

// Asks the server at its metrics port.
Result<Json> ask_status(const std::string& address, int port);

// Services with their promises, slices with their load.
std::string status_text(const Json& status, const Terminal& terminal);

}  // namespace tangram::cli

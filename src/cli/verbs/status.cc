// `tangram status`: shows the state of a running server.
//
// Structured output is the server's own document, so new keys reach programs without a change here.

#include "cli/program.h"
#include "cli/server_status.h"

namespace tangram::cli {
namespace status_verb {
namespace {

Result<ExitCode> run(Session& session, const ServerOptions& options) {
  TANGRAM_TRY(const auto status, ask_status(options));
  if (session.structured()) {
    session.print_value(status);
  } else {
    session.print(report::status_text(server_status(status), session.terminal));
  }
  return ExitCode::done;
}

}  // namespace
}  // namespace status_verb

void add_status(Program& program) {
  using namespace status_verb;
  const auto options = std::make_shared<ServerOptions>();
  Arguments& verb = program.add_verb(
      {.name = "status",
       .group = "Serve",
       .summary = "show the services and slices of a running server",
       .description =
           "Reads the metrics port of a running `tangram serve` and prints its services, with how well they kept "
           "their promises in the last minute, and its slices with their load.",
       .examples = {{"tangram status", "The server on this machine."},
                    {"tangram status --output json --port 18002", "Read another port, and print JSON."},
                    {"tangram status --address 10.0.0.5 --ca DIR/ca.pem --token-file DIR/key",
                     "Read a remote server that uses TLS and requires a key."}}},
      [options](Session& session) { return run(session, *options); });
  add_server_options(program, verb, *options);
}

}  // namespace tangram::cli

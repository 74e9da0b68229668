// `tangram status`: how a running server stands.

#include "cli/program.h"
#include "cli/status_view.h"

namespace tangram::cli {
namespace {

struct Options {
  std::string address = "127.0.0.1";
  int port = 8002;
};

ExitCode run(Session& session, const Options& options) {
  const auto status = ask_status(options.address, options.port);
  if (!status) return session.fail(status.error());
  if (session.structured()) {
    session.print_value(*status);
  } else {
    session.print(status_text(*status, session.terminal));
  }
  return ExitCode::done;
}

}  // namespace

void add_status(Program& program) {
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "status",
       .group = "Serve",
       .summary = "how a running server stands",
       .description = "Asks a running `tangram serve` at its metrics port, and prints its services with their promises "
                      "of the last minute, and its slices with their load.",
       .examples = {{"tangram status", "The server on this machine."},
                    {"tangram status --output json --port 18002", "As a value, from another port."}}},
      [options](Session& session) { return run(session, *options); });
  verb.add_option("--address", options->address, "Of the server, in numbers.")->type_name("IP");
  program.whole_number(verb.add_option("--port", options->port, "Its metrics port.")->type_name("N"), 1, 65535);
}

}  // namespace tangram::cli

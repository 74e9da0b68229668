// `tangram drain`: asks a running server to answer the requests that it has and then to end. The verb returns once the
// server has accepted; it does not wait for the end.

#include "cli/program.h"
#include "cli/server_options.h"

namespace tangram::cli {
namespace drain_verb {
namespace {

Result<ExitCode> run(Session& session, const ServerOptions& options) {
  TANGRAM_RETURN_IF_ERROR(ask_server(options, "POST", "/drain"));
  if (session.structured()) {
    session.print_value({{"drain", "requested"}});
  } else {
    session.print("asked the server to finish its requests and exit\n");
  }
  return ExitCode::done;
}

}  // namespace
}  // namespace drain_verb

void add_drain(Program& program) {
  using namespace drain_verb;
  const auto options = std::make_shared<ServerOptions>();
  Arguments& verb = program.add_verb(
      {.name = "drain",
       .group = "Serve",
       .summary = "ask a running server to finish its requests and exit",
       .description =
           "Asks a running `tangram serve` to accept no new connections, to answer the requests that it has, and to "
           "exit. SIGTERM does the same.",
       .examples = {{"tangram drain", "The server on this machine."},
                    {"tangram drain --socket DIR/admin.sock", "The server with this admin socket."}}},
      [options](Session& session) { return run(session, *options); });
  add_server_options(program, verb, *options);
}

}  // namespace tangram::cli

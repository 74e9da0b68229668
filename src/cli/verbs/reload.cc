// `tangram reload`: a running server reads its files again.

#include "cli/program.h"
#include "cli/server_options.h"

namespace tangram::cli {
namespace {

ExitCode run(Session& session, const ServerOptions& options) {
  const auto answer = ask_server(options, "POST", "/reload");
  if (!answer) return session.fail(answer.error());
  if (session.structured()) {
    session.print_value({{"reload", "requested"}});
  } else {
    session.print("asked the server to read its files again; its log says how that went\n");
  }
  return ExitCode::done;
}

}  // namespace

void add_reload(Program& program) {
  const auto options = std::make_shared<ServerOptions>();
  Arguments& verb = program.add_verb(
      {.name = "reload",
       .group = "Serve",
       .summary = "a running server reads its files again",
       .description =
           "Asks a running `tangram serve` to read its plan, services and run times again and to move to the "
           "plan, and to take the certificates and the access file as they are now, as SIGHUP does. Requests that are "
           "under way or come meanwhile are served.",
       .examples = {{"tangram reload", "The server on this machine."}}},
      [options](Session& session) { return run(session, *options); });
  add_server_options(program, verb, *options);
}

}  // namespace tangram::cli

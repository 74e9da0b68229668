// `tangram reload`: a running server reads its files again.

#include <fmt/format.h>

#include "cli/program.h"
#include "cli/status_view.h"
#include "serve/http_client.h"

namespace tangram::cli {
namespace {

struct Options {
  std::string address = "127.0.0.1";
  int port = 8002;
};

ExitCode run(Session& session, const Options& options) {
  const auto answer = serve::ask_http({.address = options.address,
                                       .port = static_cast<std::uint16_t>(options.port),
                                       .method = "POST",
                                       .path = "/reload"});
  if (!answer) return session.fail(no_server(answer.error(), options.address, options.port));
  if (answer->status != 200) {
    return session.fail({ErrorCode::unavailable,
                         fmt::format("{}:{}: the server refused: {}", options.address, options.port, answer->body)});
  }
  if (session.structured()) {
    session.print_value({{"reload", "requested"}});
  } else {
    session.print("asked the server to read its files again; its log says how that went\n");
  }
  return ExitCode::done;
}

}  // namespace

void add_reload(Program& program) {
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "reload",
       .group = "Serve",
       .summary = "a running server reads its files again",
       .description =
           "Asks a running `tangram serve` to read its plan, services and run times again and to move to the "
           "plan, as SIGHUP does. Requests that are under way or come meanwhile are served.",
       .examples = {{"tangram reload", "The server on this machine."}}},
      [options](Session& session) { return run(session, *options); });
  verb.add_option("--address", options->address, "Of the server, in numbers.")->type_name("IP");
  program.whole_number(verb.add_option("--port", options->port, "Its metrics port.")->type_name("N"), 1, 65535);
}

}  // namespace tangram::cli

// `tangram log-level`: shows or changes what a running server logs, without a restart.

#include <fmt/format.h>

#include "cli/program.h"
#include "cli/server_options.h"

namespace tangram::cli {
namespace log_level_verb {
namespace {

struct Options {
  ServerOptions server;
  std::string level;
};

Result<ExitCode> run(Session& session, const Options& options) {
  // The level was checked against a list of plain words, so it needs no escaping in the JSON.
  const bool asks = options.level.empty();
  TANGRAM_TRY(const auto answer, ask_server(options.server, asks ? "GET" : "POST", "/logging",
                                            asks ? "" : fmt::format(R"({{"level":"{}"}})", options.level)));
  const report::Json told = report::Json::parse(answer, nullptr, false);
  // Another server may answer on the port.
  if (!told.is_object() || !told.contains("level")) {
    return session.fail({ErrorCode::unavailable, "this is not the metrics port of a Tangram server"});
  }
  if (session.structured()) {
    session.print_value({{"level", told["level"]}});
  } else {
    session.print(told["level"].get<std::string>() + "\n");
  }
  return ExitCode::done;
}

}  // namespace
}  // namespace log_level_verb

void add_log_level(Program& program) {
  using namespace log_level_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "log-level",
       .group = "Serve",
       .summary = "show or change what a running server logs",
       .description =
           "Prints the log level of a running `tangram serve`, or changes it: `error`, `warning`, `info`, or "
           "`requests`, which logs a line for every request. Each level includes those before it.",
       .examples = {{"tangram log-level", "Print the level."},
                    {"tangram log-level requests", "Log a line for every request."}}},
      [options](Session& session) { return run(session, *options); });
  program.one_of(verb.add_option("LEVEL", options->level, "The new level."), {"error", "warning", "info", "requests"});
  add_server_options(program, verb, options->server);
}

}  // namespace tangram::cli

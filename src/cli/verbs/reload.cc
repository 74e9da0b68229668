// `tangram reload`: asks a running server to read its files again.
//
// The server answers at once with the number of the reload and reads the files on another thread. The verb then polls
// the status until that number has ended, because users want to know whether their files were accepted.

#include <chrono>
#include <thread>

#include "cli/interrupt.h"
#include "cli/program.h"
#include "cli/server_status.h"

namespace tangram::cli {
namespace reload_verb {
namespace {

// Reading files takes milliseconds, so the answer comes soon after the reload ends; the server sees at most 50 polls/s.
constexpr std::chrono::milliseconds kPause{20};

// Waits until the reload with this number has ended and returns its problem, empty if there was none or after Ctrl-C.
// Numbers ascend, so a later reload that has ended also ends the wait.
Result<std::string> wait_for(const ServerOptions& options, std::int64_t number, const InterruptGuard& guard) {
  while (!guard.interrupted()) {
    TANGRAM_TRY(const auto status, ask_status(options));
    const report::Json& reloads = status.at("reloads");
    if (reloads.at("ended").get<std::int64_t>() >= number) return reloads.at("problem").get<std::string>();
    std::this_thread::sleep_for(kPause);
  }
  return std::string();
}

Result<ExitCode> run(Session& session, const ServerOptions& options) {
  const InterruptGuard guard;
  TANGRAM_TRY(const auto answer, ask_server(options, "POST", "/reload"));
  const report::Json asked = report::Json::parse(answer, nullptr, false);
  // Something else may listen on the port, and at() below would throw.
  if (!asked.is_object() || !asked.contains("number"))
    return session.fail(Error{ErrorCode::unavailable, "the answer of the server has an unexpected form"});
  TANGRAM_TRY(const auto problem, wait_for(options, asked.at("number").get<std::int64_t>(), guard));
  if (guard.interrupted()) return ExitCode::interrupted;
  if (session.structured()) {
    session.print_value({{"reload", problem.empty() ? "done" : "refused"}, {"problem", problem}});
  } else if (problem.empty()) {
    session.print("the server has read its files again and uses them\n");
  } else {
    session.print("the server continues with its old files: " + problem + "\n");
  }
  return problem.empty() ? ExitCode::done : ExitCode::answer_is_no;
}

}  // namespace
}  // namespace reload_verb

void add_reload(Program& program) {
  using namespace reload_verb;
  const auto options = std::make_shared<ServerOptions>();
  Arguments& verb = program.add_verb(
      {.name = "reload",
       .group = "Serve",
       .summary = "tell a running server to read its files again",
       .description =
           "Asks a running `tangram serve` to read its plan, services and run times again and to move to the plan, "
           "and to read the certificates and the access file again. SIGHUP does the same. No request is dropped "
           "meanwhile. Waits until the files are read and prints any errors in them; in that case the server "
           "continues with its old files, and the exit code is 1.",
       .examples = {{"tangram reload", "The server on this machine."}}},
      [options](Session& session) { return run(session, *options); });
  add_server_options(program, verb, *options);
}

}  // namespace tangram::cli

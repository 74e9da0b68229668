// `tangram top`: shows the status of a running server again and again.
//
// On a terminal each picture replaces the last; elsewhere they follow each other, so that the output can be kept in a
// file.

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "cli/interrupt.h"
#include "cli/program.h"
#include "cli/server_status.h"
#include "core/layout.h"
#include "report/mosaic.h"

namespace tangram::cli {
namespace top_verb {
namespace {

struct Options {
  ServerOptions server;
  double every_s = 1;
  std::int64_t times = 0;
};

// Moves the cursor to the top and clears from there, which flickers less than clearing the whole screen first.
constexpr const char* kHomeAndClear = "\x1b[H\x1b[J";

// The layout of each device, one below the other. A type that is not in the tables, such as a host, is named but not
// drawn.
std::string mosaics(const report::Json& status, const Terminal& terminal) {
  std::string out;
  for (const auto& device : status.at("devices")) {
    const Geometry* geometry = find_geometry(device.at("type").get<std::string>());
    const std::string layout = device.at("layout").get<std::string>();
    out += fmt::format("\n{}: {}\n", device.at("name").get<std::string>(), layout);
    if (geometry == nullptr) continue;
    const ParsedLayout parsed = parse_layout(*geometry, layout);
    const report::MosaicRow row{parsed.layout, "", ""};
    if (parsed.problems.empty()) out += report::draw_mosaic(*geometry, std::span(&row, 1), terminal, {.ruler = false});
  }
  return out;
}

Result<ExitCode> run(Session& session, const Options& options) {
  // Ctrl-C ends the loop between two looks, so a picture is never cut off in the middle. Ending it is the normal way
  // out, hence `done`.
  const InterruptGuard guard;
  const bool screen = session.terminal.interactive;
  for (std::int64_t n = 0; !guard.interrupted() && (options.times == 0 || n < options.times); ++n) {
    if (n > 0) std::this_thread::sleep_for(std::chrono::duration<double>(options.every_s));
    // A signal does not end sleep_for, so look again before the next question.
    if (guard.interrupted()) break;
    TANGRAM_TRY(const auto status, ask_status(options.server));
    session.print((screen ? kHomeAndClear : "") + report::status_text(server_status(status), session.terminal) +
                  mosaics(status, session.terminal));
    session.out.flush();
  }
  return ExitCode::done;
}

}  // namespace
}  // namespace top_verb

void add_top(Program& program) {
  using namespace top_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "top",
       .group = "Serve",
       .summary = "watch a running server",
       .description =
           "Shows the output of `tangram status` and the cuts of the devices, again and again until Ctrl-C. On a "
           "terminal, each screen replaces the one before.",
       .examples = {{"tangram top", "The server on this machine, every second."},
                    {"tangram top --every 0.2 --times 10", "Refresh ten times in two seconds."}},
       .text_only = true},
      [options](Session& session) { return run(session, *options); });
  add_server_options(program, verb, options->server);
  verb.add_option("--every", options->every_s, "Seconds between two refreshes.")->type_name("S")->range(0.05, 3600.0);
  program.whole_number(
      verb.add_option("--times", options->times, "How many refreshes; 0: until Ctrl-C.")->type_name("N"), 0,
      1'000'000'000);
}

}  // namespace tangram::cli

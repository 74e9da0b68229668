// `tangram replay`: feeds a recording to a new scheduler and compares its decisions with the recorded ones.
//
// The scheduler takes all input as events, time included, so the same events must give the same decisions. A difference
// means that the scheduler has changed since the recording, or that it depends on something that is not an event.

#include <fmt/format.h>

#include "cli/inputs.h"
#include "cli/page_files.h"
#include "cli/program.h"
#include "host/files.h"
#include "sched/replay.h"

namespace tangram::cli {
namespace replay_verb {
namespace {

struct Options {
  std::string recording;
  std::string page;
};

Result<ExitCode> run(Session& session, const Options& options) {
  const std::string& path = options.recording;
  TANGRAM_RETURN_IF_ERROR(host::check_outputs({{"--page", options.page}}, {path}));
  TANGRAM_TRY(const auto source, read_source(path));
  control::FleetHistory history(whole_history(sched::last_event_of(source.text).time_since_epoch()));
  const auto report = sched::replay(source.name, source.text, options.page.empty() ? nullptr : &history);
  if (!report) return session.fail(report.error());
  if (session.structured()) {
    session.print_value(
        {{"same", report->same},
         {"complete", report->complete},
         {"events", report->events},
         {"actions", report->actions},
         {"difference_line", report->same ? report::Json(nullptr) : report::Json(report->difference_line)}});
  } else if (report->same) {
    session.print(fmt::format("the same decisions: {} events, {} actions\n", report->events, report->actions));
    // A server that was killed leaves a recording without an end. Its decisions can still be compared.
    if (!report->complete) session.remark("the recording ends early; up to there, the decisions are the same\n");
  } else {
    session.print(fmt::format("{}:{}: the decision differs\nrecorded: {}\nreplayed: {}\n", path,
                              report->difference_line, report->recorded, report->replayed));
  }
  if (!options.page.empty()) {
    TANGRAM_RETURN_IF_ERROR(write_page(
        options.page, history,
        {.title = path, .kind = "recording", .about = "A recording of a server or of a simulation, replayed."}));
    session.note("wrote " + options.page);
  }
  return report->same ? ExitCode::done : ExitCode::answer_is_no;
}

}  // namespace
}  // namespace replay_verb

void add_replay(Program& program) {
  using namespace replay_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "replay",
       .group = "Serve",
       .summary = "replay a recording and compare the decisions",
       .description =
           "Feeds the events of a recording of `tangram serve --record` or `tangram simulate --record` to a new "
           "scheduler and compares its actions with the recorded ones, byte for byte. Exits with 1 at the first "
           "difference. With --page, it also writes a page that shows the fleet at every instant of the recording: "
           "what each slice did, how each promise was kept, and what happened and why.",
       .examples = {{"tangram replay DIR/day.recording", "Check that the scheduler would decide the same again."},
                    {"tangram replay DIR/day.recording --page day.html", "See what happened, in a browser."}}},
      [options](Session& session) { return run(session, *options); });
  program.offers_files(verb.add_option("RECORDING", options->recording, "The recording.")->required());
  program.offers_files(
      verb.add_option("--page", options->page, "Write a page with a slider over time, as one self-contained file.")
          ->type_name("FILE"));
}

}  // namespace tangram::cli

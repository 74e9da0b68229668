// `tangram replay`: feeds a recording to a new scheduler and compares its decisions with the recorded ones.
//
// The scheduler takes all input as events, time included, so the same events must give the same decisions. A difference
// means that the scheduler has changed since the recording, or that it depends on something that is not an event.

#include <fmt/format.h>

#include "cli/inputs.h"
#include "cli/program.h"
#include "sched/replay.h"

namespace tangram::cli {
namespace replay_verb {
namespace {

Result<ExitCode> run(Session& session, const std::string& path) {
  TANGRAM_TRY(const auto source, read_source(path));
  const auto report = sched::replay(source.name, source.text);
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
  return report->same ? ExitCode::done : ExitCode::answer_is_no;
}

}  // namespace
}  // namespace replay_verb

void add_replay(Program& program) {
  using namespace replay_verb;
  const auto path = std::make_shared<std::string>();
  Arguments& verb = program.add_verb(
      {.name = "replay",
       .group = "Serve",
       .summary = "replay a recording and compare the decisions",
       .description =
           "Feeds the events of a recording of `tangram serve --record` or `tangram simulate --record` to a new "
           "scheduler and compares its actions with the recorded ones, byte for byte. Exits with 1 at the first "
           "difference.",
       .examples = {{"tangram replay DIR/day.recording", "Check that the scheduler would decide the same again."}}},
      [path](Session& session) { return run(session, *path); });
  program.offers_files(verb.add_option("RECORDING", *path, "The recording.")->required());
}

}  // namespace tangram::cli

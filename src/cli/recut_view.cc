// How `tangram apply` and `tangram rollback` show a change of this machine's GPUs.
//
// recut::Change decides and acts; this file only reports. Every event has two forms: a line for people, printed at
// once, and a key in json_, printed once at the end. In structured output nothing else may reach standard output, so
// every print() is behind a test of structured(); notes and warnings go to standard error in both forms.

#include "cli/recut_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "adapters/nvml/owners.h"
#include "base/text.h"
#include "report/mosaic.h"
#include "report/table.h"

namespace tangram::cli {
namespace {

constexpr std::size_t kMosaicsMax = 16;  // More pictures would push the steps off the screen.

// "process 4711 (python) uses 3g.40gb@4 of rack1-0 (GPU 0)". The command may be unknown.
std::string obstacle_text(const recut::Obstacle& obstacle) {
  return fmt::format("process {}{} uses {}", obstacle.pid,
                     obstacle.command.empty() ? "" : fmt::format(" ({})", obstacle.command), obstacle.where);
}

report::Json obstacles_json(const std::vector<recut::Obstacle>& list) {
  report::Json json = report::Json::array();
  for (const auto& obstacle : list) {
    json.push_back({{"pid", obstacle.pid}, {"command", obstacle.command}, {"where", obstacle.where}});
  }
  return json;
}

// Every step starts as "planned"; step_done() and tell_stop() overwrite the status later.
report::Json recut_step_json(const recut::RecutStep& step) {
  return {{"action", recut::to_string(step.action)},
          {"device", step.device},
          {"gpu_index", step.gpu_index},
          {"gpu_uuid", step.gpu_uuid},
          {"slice", step.slice.empty() ? report::Json(nullptr) : report::Json(step.slice)},
          {"expected_s", to_seconds(step.expected)},
          {"status", "planned"}};
}

report::Json steps_json(const std::vector<recut::RecutStep>& steps) {
  report::Json json = report::Json::array();
  for (const auto& step : steps) json.push_back(recut_step_json(step));
  return json;
}

// The words are part of the JSON format: do not change them.
const char* outcome_text(recut::StepOutcome outcome) {
  switch (outcome) {
    case recut::StepOutcome::done: return "done";
    case recut::StepOutcome::failed: return "failed";
    case recut::StepOutcome::not_reached: return "not reached";
  }
  return "";
}

double expected_seconds(const std::vector<recut::RecutStep>& steps) {
  double seconds = 0;
  for (const auto& step : steps) seconds += to_seconds(step.expected);
  return seconds;
}

std::string steps_word(std::size_t count) { return fmt::format("{} step{}", count, count == 1 ? "" : "s"); }

// The value of "status" in the JSON document.
const char* status_text(recut::ChangeStatus status) {
  switch (status) {
    case recut::ChangeStatus::nothing_to_do: return "nothing to do";
    case recut::ChangeStatus::planned: return "planned";
    case recut::ChangeStatus::done: return "done";
    case recut::ChangeStatus::refused: return "refused";
    case recut::ChangeStatus::interrupted: return "interrupted";
    case recut::ChangeStatus::failed: return "failed";
  }
  return "";
}

}  // namespace

// One text for both verbs, because they end in the same ways.
const char* const kRecutExitCodes =
    "Exit codes: 0 the change is complete or nothing had to change; 1 slices are in use and nothing was changed; 2 "
    "an argument or a file is invalid; 3 the driver or a file reported an error; 130 Ctrl-C stopped the change "
    "between two steps.";

void add_recut_options(Program& program, Arguments& verb, RecutOptions& options) {
  verb.add_flag("--dry-run", options.dry_run, "Print the steps and change nothing.");
  verb.add_option("--wait", options.wait_s, "How long to wait for processes that use slices which must be destroyed.")
      ->type_name("S")
      ->capture_default_str()
      ->range(0.0, 86400.0);
  verb.add_flag(
      "--force", options.force,
      "Send SIGTERM to each process that uses a slice which must be destroyed, print its name, and wait for it to "
      "end. No process is killed.");
  program.offers_files(
      verb.add_option(
              "--state", options.state,
              "The folder for the checkpoint and the lock. Default: $TANGRAM_STATE, else /var/lib/tangram for root "
              "or a folder in the user's home.")
          ->type_name("DIR"));
}

recut::ChangeOptions change_options(const RecutOptions& options) {
  return {.dry_run = options.dry_run,
          .force = options.force,
          .wait_s = options.wait_s,
          .directory = recut::state_directory(options.state)};
}

// Two programs that cut the same GPUs undo each other's work, and neither sees an error. A warning is all that is
// possible: the other program may be idle for good.
void RecutView::warn_of_owners() {
  json_["warnings"] = report::Json::array();
  for (const auto& owner : adapters::other_mig_owners()) {
    session_.warn(owner + ": only one tool should manage the GPUs");
    json_["warnings"].push_back(owner);
  }
}

void RecutView::begin(const report::Json& about) {
  json_.update(about);
  json_["dry_run"] = options_.dry_run;
}

// Standard error and the document carry the same message, so that a program needs only one of them.
ExitCode RecutView::fail(const Error& error) {
  json_["error"] = error.message;
  return session_.fail(error);
}

// ---- While the change runs ----

// Keeps the goals for print_slices(), which runs after the change.
void RecutView::compared(const std::vector<recut::GpuGoal>& goals, const adapters::DriverReport& now) {
  goals_ = goals;
  json_["gpus"] = report::Json::array();
  std::size_t drawn = 0;
  for (const auto& goal : goals) {
    // Always found: the observer's contract is that every GPU of `goals` is in `now`.
    const auto gpu = std::ranges::find(now.gpus, goal.gpu_uuid, &adapters::DriverGpu::uuid);
    const Layout before = adapters::recognise_layout(goal.geometry, *gpu).layout;
    if (gpu->mig_enabled && !gpu->mig_pending) {
      session_.note(
          fmt::format("GPU {}: MIG mode is off after its next reset, and its slices are gone then; "
                      "`nvidia-smi -i {} -mig 1` keeps it on",
                      goal.gpu_index, goal.gpu_index));
    }
    json_["gpus"].push_back({{"device", goal.device},
                             {"type", goal.geometry.type},
                             {"index", goal.gpu_index},
                             {"uuid", goal.gpu_uuid},
                             {"layout_before", to_string(goal.geometry, before)},
                             {"layout_after", to_string(goal.geometry, goal.layout)}});
    // The document has all GPUs, only the pictures are limited.
    if (session_.structured() || ++drawn > kMosaicsMax) continue;
    session_.print(fmt::format("{} is GPU {}, {} ({})\n", paint(session_.terminal, Style::bold, goal.device),
                               goal.gpu_index, gpu->name, goal.gpu_uuid));
    if (before == goal.layout) continue;
    const report::MosaicRow rows[] = {{before, "now", ""}, {goal.layout, "then", ""}};
    session_.print(report::draw_mosaic(goal.geometry, rows, session_.terminal, {.left_title = "unit"}));
  }
}

void RecutView::planned(const std::vector<recut::RecutStep>& steps) {
  if (steps.empty()) {
    if (!session_.structured()) session_.print("nothing to do: every slice is already in place\n");
    json_["changed"] = false;
    return;
  }
  print_steps(steps);
  // From here on Ctrl-C must not end the process in the middle of a step, which would leave a GPU half cut. Before this
  // point the default is right, because nothing has been changed.
  if (!options_.dry_run) interrupt_.emplace();
}

// In a dry run nothing is asked to end, so the obstacles are only listed.
void RecutView::would_wait(const std::vector<recut::Obstacle>& obstacles) {
  json_["in_use"] = obstacles_json(obstacles);
  for (const auto& obstacle : obstacles) session_.note(obstacle_text(obstacle));
}

// Called at every look while the change waits. People see the list once; the document keeps the latest one.
void RecutView::waiting(const std::vector<recut::Obstacle>& obstacles, bool first) {
  json_["in_use"] = obstacles_json(obstacles);
  if (!first) return;
  for (const auto& obstacle : obstacles) {
    session_.note(obstacle_text(obstacle) + (options_.force ? ": sent SIGTERM" : ""));
  }
}

// Replaces the steps of the document, because step_done() addresses them by index.
void RecutView::replanned(const std::vector<recut::RecutStep>& steps) {
  steps_ = steps.size();
  json_["steps"] = steps_json(steps);
}

void RecutView::writing_checkpoint(const std::string& path) {
  checkpoint_ = path;
  json_["checkpoint"] = path;
}

// An older checkpoint stays in force because it leads further back. Without this note the user would expect a rollback
// to undo only the last change.
void RecutView::checkpoint_kept(recut::CheckpointKept why, const std::string& made) {
  if (why == recut::CheckpointKept::unfinished) {
    return session_.note(fmt::format("the change that began at {} did not finish; its checkpoint is kept", made));
  }
  session_.note(
      fmt::format("other GPUs are in the middle of the change that began at {}; its checkpoint is kept", made));
}

// A rollback works from an existing checkpoint; only a new one is worth naming.
void RecutView::starting(bool rolls_back) {
  rolls_back_ = rolls_back;
  if (!rolls_back) session_.remark(fmt::format("\ncheckpoint: {}\n", checkpoint_));
}

void RecutView::step_done(std::size_t index, const recut::RecutStep& step, const recut::StepResult& result) {
  json_["steps"][index]["status"] = outcome_text(result.outcome);
  json_["steps"][index]["took_s"] = result.seconds;
  if (session_.structured()) return;
  const bool done = result.outcome == recut::StepOutcome::done;
  session_.print(fmt::format("{}/{}  {}  {}  {:.2f} s\n", index + 1, steps_, recut::to_text(step),
                             paint(session_.terminal, done ? Style::good : Style::bad, outcome_text(result.outcome)),
                             result.seconds));
  session_.out.flush();  // A step can take seconds and the next may fail: show at once what was done.
}

void RecutView::earlier_change_remains() {
  session_.note("that change had not modified anything; run the command again to undo the change before it");
}

// ---- At the end of the change ----

// Ctrl-C has its usual effect again. `stopped` is set only for a change that had started its steps and did not finish
// them; every other end goes to tell_end().
ExitCode RecutView::end(const recut::ChangeResult& result, const adapters::DriverReport& now) {
  interrupt_.reset();
  const ExitCode code = result.stopped ? tell_stop(result) : tell_end(result, now);
  json_["status"] = status_text(result.status);
  if (session_.structured()) session_.print_value(json_);
  return code;
}

// `changed` is left out of the document if the GPUs were not compared again.
ExitCode RecutView::tell_end(const recut::ChangeResult& result, const adapters::DriverReport& now) {
  if (result.changed) json_["changed"] = *result.changed;
  switch (result.status) {
    case recut::ChangeStatus::failed: return fail(*result.error);
    case recut::ChangeStatus::planned: session_.remark("\nnothing was changed\n"); return ExitCode::done;
    case recut::ChangeStatus::interrupted:
      session_.note("interrupted: nothing was changed");
      return ExitCode::interrupted;
    // Nothing was changed, so this is the answer "no" and not an error.
    case recut::ChangeStatus::refused:
      session_.note(fmt::format(
          "{}slices that must be destroyed are in use; nothing was changed; --wait S waits for the processes to end{}",
          result.waited_s > 0 ? fmt::format("after {:g} s ", result.waited_s) : "",
          options_.force ? "" : ", --force sends them SIGTERM"));
      return ExitCode::answer_is_no;
    case recut::ChangeStatus::done:
      if (session_.structured()) break;
      session_.print(fmt::format(
          "\n{} done{}\n", steps_word(result.steps),
          result.as_before ? ": all cuts are as they were before" : "; tangram rollback undoes the change"));
      break;
    case recut::ChangeStatus::nothing_to_do: break;
  }
  print_slices(now);
  return ExitCode::done;
}

// The step that failed has its status from step_done(), so the steps not reached begin one later than after an
// interrupt.
ExitCode RecutView::tell_stop(const recut::ChangeResult& result) {
  const recut::StoppedChange& stopped = *result.stopped;
  for (std::size_t i = stopped.done + (result.error ? 1 : 0); i < result.steps; ++i) {
    json_["steps"][i]["status"] = outcome_text(recut::StepOutcome::not_reached);
  }
  const ExitCode code = result.error ? fail(*result.error) : ExitCode::interrupted;
  session_.note(fmt::format("{} after {} of {}; run {} to continue from here", result.error ? "stopped" : "interrupted",
                            stopped.done, steps_word(result.steps),
                            rolls_back_ ? "tangram rollback" : "tangram apply"));
  // A slice that was destroyed and created again on the way has a new UUID, although the layout looks unchanged.
  // Programs that held the old UUID must be told.
  json_["made_anew"] = report::Json::array();
  for (const auto& [where, before, after] : stopped.made_anew) {
    session_.note(fmt::format("{} was destroyed and created again: its MIG device is now {}, before it was {}", where,
                              after, before));
    json_["made_anew"].push_back({{"where", where}, {"mig_uuid_before", before}, {"mig_uuid", after}});
  }
  json_["changed"] = *result.changed;
  if (stopped.checkpoint_error) return fail(*stopped.checkpoint_error);
  if (stopped.way_back) {
    tell_way_back(*stopped.way_back, *result.changed             ? "every cut is as it was before"
                                     : stopped.made_anew.empty() ? "nothing was changed"
                                                                 : "no cut was changed");
  }
  return code;
}

// Three cases: the checkpoint is undone, so there is nothing to go back to; it is open, so a rollback undoes this
// change; or it is closed, so a rollback would undo the change before this one, which the user must know before typing
// it.
void RecutView::tell_way_back(const recut::WayBack& back, std::string_view changed) {
  const recut::Checkpoint& last = back.checkpoint;
  json_["rollback"] = report::Json::array();
  if (last.state == recut::ChangeState::undone) {
    return session_.note(fmt::format("{}: tangram rollback has nothing to do", changed));
  }
  if (back.error) return session_.note("tangram rollback could not start now: " + back.error->message);
  json_["rollback"] = steps_json(back.steps);
  std::vector<std::string> texts;
  for (const auto& step : back.steps) texts.push_back(recut::to_text(step));
  const std::string steps = text::join(texts, ", ");
  if (last.state == recut::ChangeState::open) return session_.note("tangram rollback would " + steps);
  session_.note(fmt::format("{}; tangram rollback would undo the change before, of {} at {}: {}", changed, last.plan,
                            last.made, steps));
}

// Ensures that the document has every step at its index, which step_done() relies on.
void RecutView::print_steps(const std::vector<recut::RecutStep>& steps) {
  steps_ = steps.size();
  json_["steps"] = steps_json(steps);
  if (session_.structured()) return;
  report::Table table({{"#", report::Align::right},
                       {"STEP"},
                       {"SLICE"},
                       {"DEVICE"},
                       {"GPU", report::Align::right},
                       {"ABOUT S", report::Align::right}});
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const recut::RecutStep& step = steps[i];
    table.add({fmt::format("{}", i + 1),
               std::string(recut::to_string(step.action)),
               step.slice,
               {step.device, Style::accent},
               fmt::format("{}", step.gpu_index),
               step.expected == Duration::zero() ? "-" : fmt::format("{:.2f}", to_seconds(step.expected))});
  }
  session_.print("\n" + table.render(session_.terminal));
  session_.remark(fmt::format("{}, about {:.1f} s; slices that are already in place are not touched\n",
                              steps_word(steps.size()), expected_seconds(steps)));
}

// Prints the UUID of each slice, as CUDA_VISIBLE_DEVICES takes it. Each cut gives new UUIDs, so old ones are useless. A
// slice in several parts has no single UUID.
void RecutView::print_slices(const adapters::DriverReport& now) {
  report::Table table({{"DEVICE"}, {"SLICE"}, {"CUDA_VISIBLE_DEVICES"}});
  json_["slices"] = report::Json::array();
  for (const auto& [device, gpu_uuid, slice, mig_uuid] : recut::slice_addresses(now, goals_)) {
    json_["slices"].push_back({{"device", device},
                               {"gpu_uuid", gpu_uuid},
                               {"slice", slice},
                               {"mig_uuid", mig_uuid.empty() ? report::Json(nullptr) : report::Json(mig_uuid)}});
    table.add({{device, Style::accent}, slice, mig_uuid.empty() ? "in parts" : mig_uuid});
  }
  if (!table.empty()) session_.remark("\n" + table.render(session_.terminal));
}

}  // namespace tangram::cli

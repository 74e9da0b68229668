#include "cli/recut_session.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "adapters/nvml/owners.h"
#include "base/text.h"
#include "host/files.h"
#include "cli/interrupt.h"
#include "report/mosaic.h"
#include "report/table.h"

namespace tangram::cli {
namespace {

constexpr double kForcedWaitSeconds = 30;  // With --force and no --wait.
constexpr std::chrono::milliseconds kLookEvery{100};
constexpr std::size_t kMosaicsMax = 16;

std::string utc_now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::now())); }

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

// Whether the GPUs of `goals` are cut the same way, part by part.
bool same_cuts(const adapters::DriverReport& before, const adapters::DriverReport& now,
               const std::vector<recut::GpuGoal>& goals) {
  return std::ranges::all_of(goals, [&](const recut::GpuGoal& goal) {
    const auto gpu = std::ranges::find(before.gpus, goal.gpu_uuid, &adapters::DriverGpu::uuid);
    if (gpu == before.gpus.end()) return false;
    const auto was = recut::goal_of(*gpu, goal.device);
    return was && recut::is_as_it_was({"", "", recut::ChangeState::open, {*was}}, now);
  });
}

// The UUID of the part that has all of a slice, as the driver says now.
std::string mig_uuid_of(const adapters::DriverReport& now, const recut::GpuGoal& goal, const Slice& slice) {
  const auto gpu = std::ranges::find(now.gpus, goal.gpu_uuid, &adapters::DriverGpu::uuid);
  return gpu == now.gpus.end() ? "" : adapters::find_mig_uuid(goal.geometry, *gpu, slice);
}

}  // namespace

const char* const kRecutExitCodes =
    "Ends with 0 when all is done or there was nothing to do, 1 when slices are in use and nothing was changed, 2 when "
    "an argument or a file is wrong, 3 when the driver or a file refused, and 130 after Ctrl-C between two steps.";

void add_recut_options(Program& program, Arguments& verb, RecutOptions& options) {
  verb.add_flag("--dry-run", options.dry_run, "Print the steps and change nothing.");
  verb.add_option("--wait", options.wait_s, "How long to wait for processes that use slices which must go.")
      ->type_name("S")
      ->capture_default_str()
      ->range(0.0, 86400.0);
  verb.add_flag("--force", options.force,
                "Ask processes that use slices which must go to end (SIGTERM), name each, and wait for them. None is "
                "killed.");
  program.offers_files(
      verb.add_option("--state", options.state,
                      "Where checkpoint and lock are: $TANGRAM_STATE, /var/lib/tangram for root, else a folder of "
                      "the user.")
          ->type_name("DIR"));
}

RecutSession::RecutSession(Session& session, RecutOptions options)
    : session_(session), options_(std::move(options)), directory_(recut::state_directory(options_.state)) {}
RecutSession::~RecutSession() = default;

Result<Nothing> RecutSession::open() {
  if (!options_.dry_run) {
    auto lock = recut::RecutLock::take(directory_);
    if (!lock) return lock.error();
    lock_ = std::move(*lock);
  }
  auto driver = adapters::MigDriver::open(recut::nvml_library());
  if (!driver) return driver.error();
  driver_ = std::move(*driver);
  now_ = driver_->read();
  json_["warnings"] = report::Json::array();
  for (const auto& owner : adapters::other_mig_owners()) {
    session_.warn(owner + ": GPUs should have one owner");
    json_["warnings"].push_back(owner);
  }
  return Nothing{};
}

ExitCode RecutSession::apply(const std::vector<recut::GpuGoal>& goals, const std::string& plan) {
  checkpoint_.plan = plan;
  return run(goals);
}

ExitCode RecutSession::roll_back(const recut::Checkpoint& checkpoint) {
  checkpoint_ = checkpoint;
  state_before_ = checkpoint.state;
  rolls_back_ = true;
  return run(checkpoint.gpus);
}

ExitCode RecutSession::run(const std::vector<recut::GpuGoal>& goals) {
  json_["dry_run"] = options_.dry_run;
  const Ending ending = go(goals);
  json_["status"] = ending.status;
  if (session_.structured()) session_.print_value(json_);
  return ending.code;
}

Result<Nothing> RecutSession::look_again(const std::vector<recut::GpuGoal>& goals) {
  now_ = driver_->read();
  auto steps = recut::plan_recut(now_, goals);
  if (!steps) return steps.error();
  steps_ = std::move(*steps);
  return Nothing{};
}

RecutSession::Ending RecutSession::failed(const Error& error) {
  json_["error"] = error.message;
  return {"failed", session_.fail(error)};
}

RecutSession::Ending RecutSession::go(const std::vector<recut::GpuGoal>& goals) {
  if (const auto looked = look_again(goals); !looked) return failed(looked.error());
  print_goals(goals);
  if (steps_.empty()) return nothing_to_do(goals);
  if (rolls_back_ && checkpoint_.state == recut::ChangeState::undone) {
    return failed({ErrorCode::unavailable,
                   fmt::format("the change that began at {} was rolled back, and others have cut these GPUs since: "
                               "there is nothing to go back from; --checkpoint {} goes there all the same",
                               checkpoint_.made, checkpoint_file())});
  }
  print_steps();
  if (options_.dry_run) {
    const auto in_the_way = recut::obstacles(now_, steps_);
    json_["in_use"] = obstacles_json(in_the_way);
    for (const auto& obstacle : in_the_way) session_.note(obstacle_text(obstacle));
    session_.remark("\nnothing was changed\n");
    return {"planned", ExitCode::done};
  }
  Ending ending;
  if (!clear_the_way(goals, ending)) return ending;
  if (const auto prepared = prepare(goals); !prepared) return failed(prepared.error());
  return execute(goals);
}

// True when no process is in the way, perhaps after a wait. Nothing has been changed until then.
bool RecutSession::clear_the_way(const std::vector<recut::GpuGoal>& goals, Ending& ending) {
  const InterruptGuard interrupt;
  using Clock = std::chrono::steady_clock;
  const double wait_s = options_.force && options_.wait_s == 0 ? kForcedWaitSeconds : options_.wait_s;
  const auto until = Clock::now() + std::chrono::duration<double>(wait_s);
  bool told = false;
  for (;;) {
    const auto in_the_way = recut::obstacles(now_, steps_);
    if (in_the_way.empty()) return true;
    json_["in_use"] = obstacles_json(in_the_way);
    for (const auto& obstacle : in_the_way) {
      if (told) break;
      session_.note(obstacle_text(obstacle) + (options_.force ? ": asked to end" : ""));
      if (options_.force) kill(obstacle.pid, SIGTERM);
    }
    told = true;
    if (interrupt.interrupted()) {
      session_.note("interrupted: nothing was changed");
      ending = {"interrupted", ExitCode::interrupted};
      return false;
    }
    if (Clock::now() >= until) {
      session_.note(fmt::format("{}slices that must go are in use: nothing was changed; --wait S waits for them{}",
                                wait_s > 0 ? fmt::format("after {:g} s ", wait_s) : "",
                                options_.force ? "" : ", --force asks the processes to end"));
      ending = {"refused", ExitCode::answer_is_no};
      return false;
    }
    std::this_thread::sleep_for(kLookEvery);
    if (const auto looked = look_again(goals); !looked) {
      ending = failed(looked.error());
      return false;
    }
    json_["steps"] = steps_json(steps_);
  }
}

// A change that had stopped half way may have come to its end by other hands.
RecutSession::Ending RecutSession::nothing_to_do(const std::vector<recut::GpuGoal>& goals) {
  if (!session_.structured()) session_.print("nothing to do: every slice is where it should be\n");
  json_["changed"] = false;
  if (!options_.dry_run) {
    const auto stored = stored_checkpoint();
    if (!stored) return failed(stored.error());
    const bool closes = *stored && ((*stored)->state == recut::ChangeState::open || rolls_back_);
    if (closes && (*stored)->state != recut::ChangeState::undone) {
      checkpoint_ = **stored;
      const bool more = rolls_back_ && !checkpoint_.previous.empty();
      if (const auto closed = close_checkpoint(goals); !closed) return failed(closed.error());
      if (more) session_.note("that change had changed nothing; once more, and the change before it is undone");
    }
  }
  print_slices(goals);
  return {"nothing to do", ExitCode::done};
}

// Before the first step. The way back is open until it has come to its end, too.
Result<Nothing> RecutSession::prepare(const std::vector<recut::GpuGoal>& goals) {
  start_ = now_;
  if (rolls_back_) {
    checkpoint_.state = recut::ChangeState::open;
    return store_checkpoint();
  }
  const auto old = stored_checkpoint();
  if (!old) return old.error();
  checkpoint_.made = utc_now();
  if (*old && (*old)->state == recut::ChangeState::open) {
    checkpoint_.previous = (*old)->previous;
    if (!recut::is_as_it_was(**old, now_)) {
      session_.note(fmt::format("the change that began at {} was not finished: its checkpoint is kept", (*old)->made));
      checkpoint_.made = (*old)->made;
      checkpoint_.gpus = (*old)->gpus;
    }
  } else if (*old) {
    checkpoint_.previous = recut::write_checkpoint(**old, now_);
  }
  if (const auto added = add_to_checkpoint(goals); !added) return added;
  return store_checkpoint();
}

// The GPUs of `goals` as they are, but for those that the checkpoint has already.
Result<Nothing> RecutSession::add_to_checkpoint(const std::vector<recut::GpuGoal>& goals) {
  for (const auto& goal : goals) {
    if (std::ranges::find(checkpoint_.gpus, goal.gpu_uuid, &recut::GpuGoal::gpu_uuid) != checkpoint_.gpus.end()) continue;
    const auto gpu = std::ranges::find(now_.gpus, goal.gpu_uuid, &adapters::DriverGpu::uuid);
    auto before = recut::goal_of(*gpu, goal.device);
    if (!before) return before.error();
    checkpoint_.gpus.push_back(std::move(*before));
  }
  return Nothing{};
}

// Nothing where there is none, or one that this machine's GPUs make no sense of. Error: it cannot be read.
Result<std::optional<recut::Checkpoint>> RecutSession::stored_checkpoint() const {
  std::error_code error;
  if (!std::filesystem::exists(checkpoint_file(), error)) return std::optional<recut::Checkpoint>();
  const auto text = host::read_file(checkpoint_file());
  if (!text) return text.error();
  auto stored = recut::read_checkpoint(checkpoint_file(), *text, now_);
  return stored ? std::optional<recut::Checkpoint>(std::move(*stored)) : std::nullopt;
}

Result<Nothing> RecutSession::store_checkpoint() {
  json_["checkpoint"] = checkpoint_file();
  return host::write_file_atomically(checkpoint_file(), recut::write_checkpoint(checkpoint_, now_));
}

// After `goals` were reached.
Result<Nothing> RecutSession::close_checkpoint(const std::vector<recut::GpuGoal>& goals) {
  if (recut::is_as_it_was(checkpoint_, now_)) return take_checkpoint_back();
  if (!recut::is_settled(checkpoint_, goals, now_)) {
    session_.note(fmt::format("other GPUs are half way of the change that began at {}: its checkpoint is kept",
                              checkpoint_.made));
    return store_checkpoint();
  }
  checkpoint_.state = recut::ChangeState::done;
  checkpoint_.previous.clear();
  return store_checkpoint();
}

// Every GPU is as the checkpoint says. What was rolled back is undone; any other change has not happened.
Result<Nothing> RecutSession::take_checkpoint_back() {
  const std::string previous = std::exchange(checkpoint_.previous, {});
  checkpoint_.state = recut::ChangeState::undone;
  const bool happened = rolls_back_ && !start_.gpus.empty();
  if (happened || previous.empty()) return store_checkpoint();
  json_["checkpoint"] = checkpoint_file();
  return host::write_file_atomically(checkpoint_file(), previous);
}

// After a stop.
Result<Nothing> RecutSession::reconsider_checkpoint(bool changed) {
  if (rolls_back_ && !changed) {
    checkpoint_.state = state_before_;
    return store_checkpoint();
  }
  return recut::is_as_it_was(checkpoint_, now_) ? take_checkpoint_back() : Result<Nothing>(Nothing{});
}

RecutSession::Ending RecutSession::execute(const std::vector<recut::GpuGoal>& goals) {
  const InterruptGuard interrupt;
  if (!rolls_back_) session_.remark(fmt::format("\ncheckpoint: {}\n", checkpoint_file()));
  const auto told = [&](std::size_t index, const recut::StepResult& result) {
    json_["steps"][index]["status"] = outcome_text(result.outcome);
    json_["steps"][index]["took_s"] = result.seconds;
    if (session_.structured()) return;
    const bool done = result.outcome == recut::StepOutcome::done;
    session_.print(fmt::format("{}/{}  {}  {}  {:.2f} s\n", index + 1, steps_.size(), recut::to_text(steps_[index]),
                               paint(session_.terminal, done ? Style::good : Style::bad, outcome_text(result.outcome)),
                               result.seconds));
    session_.out.flush();
  };
  const recut::RecutRun run = recut::run_recut(*driver_, steps_, told, [&] { return interrupt.interrupted(); });
  for (std::size_t i = run.done() + (run.error ? 1 : 0); i < steps_.size(); ++i) {
    json_["steps"][i]["status"] = outcome_text(recut::StepOutcome::not_reached);
  }
  return run.complete() ? finish(goals) : stop(run, goals);
}

RecutSession::Ending RecutSession::finish(const std::vector<recut::GpuGoal>& goals) {
  const auto count = steps_.size();
  if (const auto looked = look_again(goals); !looked) return failed(looked.error());
  if (!steps_.empty()) {
    return failed({ErrorCode::unavailable,
                   fmt::format("the driver did every step, but {} is still to be done: another program cuts these GPUs",
                               recut::to_text(steps_.front()))});
  }
  json_["changed"] = true;
  if (const auto closed = close_checkpoint(goals); !closed) return failed(closed.error());
  if (!session_.structured()) {
    const bool back = rolls_back_ || checkpoint_.state == recut::ChangeState::undone;
    session_.print(fmt::format("\n{} done{}\n", steps_word(count),
                               back ? ": everything is as it was" : "; tangram rollback goes back"));
  }
  print_slices(goals);
  return {"done", ExitCode::done};
}

// What was done stays done, and each GPU is in a state that the next run understands.
RecutSession::Ending RecutSession::stop(const recut::RecutRun& run, const std::vector<recut::GpuGoal>& goals) {
  const std::string what = rolls_back_ ? "tangram rollback" : "tangram apply";
  Ending ending{"interrupted", ExitCode::interrupted};
  if (run.error) ending = failed(*run.error);
  session_.note(fmt::format("{} after {} of {}; {} goes on from here", run.error ? "stopped" : "interrupted",
                            run.done(), steps_word(steps_.size()), what));
  now_ = driver_->read();
  json_["made_anew"] = report::Json::array();
  const auto anew = recut::made_anew(start_, now_, goals);
  for (const auto& [where, before, after] : anew) {
    session_.note(
        fmt::format("{} was taken apart and made again: its MIG device is {} now, no longer {}", where, after, before));
    json_["made_anew"].push_back({{"where", where}, {"mig_uuid_before", before}, {"mig_uuid", after}});
  }
  const bool changed = run.done() > 0 || !same_cuts(start_, now_, goals);
  json_["changed"] = changed;
  if (const auto kept = reconsider_checkpoint(changed); !kept) return failed(kept.error());
  tell_way_back(changed ? "every cut is as it was" : anew.empty() ? "nothing is changed" : "no cut is changed");
  return ending;
}

void RecutSession::tell_way_back(std::string_view changed) {
  const auto stored = stored_checkpoint();
  if (rolls_back_ || !stored || !*stored) return;
  const recut::Checkpoint& last = **stored;
  json_["rollback"] = report::Json::array();
  if (last.state == recut::ChangeState::undone) {
    return session_.note(fmt::format("{}: tangram rollback has nothing to do", changed));
  }
  const auto back = recut::plan_recut(now_, last.gpus);
  if (!back) return session_.note("tangram rollback could not start now: " + back.error().message);
  json_["rollback"] = steps_json(*back);
  std::vector<std::string> texts;
  for (const auto& step : *back) texts.push_back(recut::to_text(step));
  const std::string steps = text::join(texts, ", ");
  if (last.state == recut::ChangeState::open) return session_.note("tangram rollback would " + steps);
  session_.note(fmt::format("{}; tangram rollback would undo the change before, of {} at {}: {}", changed, last.plan,
                            last.made, steps));
}

// What is said.

void RecutSession::print_goals(const std::vector<recut::GpuGoal>& goals) {
  json_["gpus"] = report::Json::array();
  std::size_t drawn = 0;
  for (const auto& goal : goals) {
    const auto gpu = std::ranges::find(now_.gpus, goal.gpu_uuid, &adapters::DriverGpu::uuid);
    const Layout before = adapters::recognise_layout(goal.geometry, *gpu).layout;
    json_["gpus"].push_back({{"device", goal.device},
                             {"type", goal.geometry.type},
                             {"index", goal.gpu_index},
                             {"uuid", goal.gpu_uuid},
                             {"layout_before", to_string(goal.geometry, before)},
                             {"layout_after", to_string(goal.geometry, goal.layout)}});
    if (session_.structured() || ++drawn > kMosaicsMax) continue;
    session_.print(fmt::format("{} is GPU {}, {} ({})\n", paint(session_.terminal, Style::bold, goal.device),
                               goal.gpu_index, gpu->name, goal.gpu_uuid));
    if (before == goal.layout) continue;
    const report::MosaicRow rows[] = {{before, "now", ""}, {goal.layout, "then", ""}};
    session_.print(report::draw_mosaic(goal.geometry, rows, session_.terminal, {.left_title = "unit"}));
  }
}

void RecutSession::print_steps() {
  json_["steps"] = steps_json(steps_);
  if (session_.structured()) return;
  report::Table table({{"#", report::Align::right}, {"STEP"}, {"SLICE"}, {"DEVICE"}, {"GPU", report::Align::right}, {"ABOUT S", report::Align::right}});
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const recut::RecutStep& step = steps_[i];
    table.add({fmt::format("{}", i + 1),
               std::string(recut::to_string(step.action)),
               step.slice,
               {step.device, Style::accent},
               fmt::format("{}", step.gpu_index),
               step.expected == Duration::zero() ? "-" : fmt::format("{:.2f}", to_seconds(step.expected))});
  }
  session_.print("\n" + table.render(session_.terminal));
  session_.remark(fmt::format("{}, about {:.1f} s; what is right already is not touched\n", steps_word(steps_.size()),
                              expected_seconds(steps_)));
}

// Where each slice is reached. UUIDs change with each cut, so they are worth saying.
void RecutSession::print_slices(const std::vector<recut::GpuGoal>& goals) {
  report::Table table({{"DEVICE"}, {"SLICE"}, {"CUDA_VISIBLE_DEVICES"}});
  json_["slices"] = report::Json::array();
  for (const auto& goal : goals) {
    for (const auto& slice : goal.layout.slices) {
      const std::string name = fmt::format("{}@{}", goal.geometry.profiles[slice.profile].name, slice.start);
      const std::string uuid = mig_uuid_of(now_, goal, slice);
      json_["slices"].push_back({{"device", goal.device},
                                 {"gpu_uuid", goal.gpu_uuid},
                                 {"slice", name},
                                 {"mig_uuid", uuid.empty() ? report::Json(nullptr) : report::Json(uuid)}});
      table.add({{goal.device, Style::accent}, name, uuid.empty() ? "in parts" : uuid});
    }
  }
  if (!table.empty()) session_.remark("\n" + table.render(session_.terminal));
}

}  // namespace tangram::cli

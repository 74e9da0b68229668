// Runs one change: lock, compare, wait for obstacles, checkpoint, steps, verification.
//
// Every function that learns something new reads the driver again instead of predicting its state, because other
// programs (nvidia-smi, a MIG manager) can cut the same GPUs at any time; our lock excludes only other tangram
// processes. Invariant: steps_ always lead from now_ to goals_, except in execute() and stop(), where the steps are
// being done.

#include "recut/change.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace tangram::recut {
namespace {

// True if the GPUs of `goals` have the same slices and parts in both reports. A GPU that cannot be read counts as
// changed.
bool same_cuts(const adapters::DriverReport& before, const adapters::DriverReport& now,
               const std::vector<GpuGoal>& goals) {
  return std::ranges::all_of(goals, [&](const GpuGoal& goal) {
    const auto gpu = std::ranges::find(before.gpus, goal.gpu_uuid, &adapters::DriverGpu::uuid);
    if (gpu == before.gpus.end()) return false;
    const auto was = goal_of(*gpu, goal.device);
    return was && is_as_it_was({"", "", ChangeState::open, {*was}}, now);
  });
}

// The UUID of the part that has all of a slice; empty if the slice is missing or divided.
std::string mig_uuid_of(const adapters::DriverReport& now, const GpuGoal& goal, const Slice& slice) {
  const auto gpu = std::ranges::find(now.gpus, goal.gpu_uuid, &adapters::DriverGpu::uuid);
  return gpu == now.gpus.end() ? "" : adapters::find_mig_uuid(goal.geometry, *gpu, slice);
}

ChangeResult failed(Error error) { return {.status = ChangeStatus::failed, .error = std::move(error)}; }

}  // namespace

std::vector<SliceAddress> slice_addresses(const adapters::DriverReport& now, const std::vector<GpuGoal>& goals) {
  std::vector<SliceAddress> addresses;
  for (const auto& goal : goals) {
    for (const auto& slice : goal.layout.slices) {
      addresses.push_back({goal.device, goal.gpu_uuid,
                           fmt::format("{}@{}", goal.geometry.profiles[slice.profile].name, slice.start),
                           mig_uuid_of(now, goal, slice)});
    }
  }
  return addresses;
}

Change::Change(ChangeOptions options, ChangeObserver& observer)
    : options_(std::move(options)), observer_(observer), keeper_(checkpoint_path(options_.directory), observer) {}

Result<Nothing> Change::open(const std::string& library) {
  // The lock comes before the first read: another change must not move a slice between our read and our steps.
  if (!options_.dry_run) {
    TANGRAM_TRY(auto lock, RecutLock::take(options_.directory));
    lock_ = std::move(lock);
  }
  TANGRAM_TRY(auto driver, adapters::MigDriver::open(library));
  driver_ = std::move(driver);
  now_ = driver_->read();
  return Nothing{};
}

ChangeResult Change::apply(const std::vector<GpuGoal>& goals, const std::string& plan) {
  keeper_.begin_apply(plan);
  goals_ = goals;
  return run();
}

ChangeResult Change::roll_back(const Checkpoint& checkpoint) {
  keeper_.begin_rollback(checkpoint);
  goals_ = checkpoint.gpus;
  return run();
}

Result<Nothing> Change::look_again() {
  now_ = driver_->read();
  TANGRAM_TRY(auto steps, plan_recut(now_, goals_));
  steps_ = std::move(steps);
  return Nothing{};
}

ChangeResult Change::run() {
  // The result has no `changed`: the driver could not be compared, so nothing is claimed about it.
  if (const auto looked = look_again(); !looked) return failed(looked.error());
  observer_.compared(goals_, now_);
  if (steps_.empty()) return close_without_steps();
  // An undone checkpoint whose GPUs differ means that someone cut them after the rollback. Going "back" would destroy
  // their work, so only an explicit --checkpoint does it.
  if (keeper_.rolls_back() && keeper_.checkpoint().state == ChangeState::undone) {
    return failed(
        {ErrorCode::unavailable,
         fmt::format(
             "the change that began at {} was rolled back, and these GPUs have been cut since: there is nothing to "
             "undo; --checkpoint {} restores it anyway",
             keeper_.checkpoint().made, checkpoint_file())});
  }
  observer_.planned(steps_);
  if (options_.dry_run) {
    observer_.would_wait(obstacles(now_, steps_));
    return {.status = ChangeStatus::planned};
  }
  if (auto ended = clear_obstacles()) return *std::move(ended);
  // Taken after the wait, because slices may have changed while the change waited.
  start_ = now_;
  if (const auto prepared = keeper_.prepare(now_, goals_); !prepared) return failed(prepared.error());
  return execute();
}

std::optional<ChangeResult> Change::clear_obstacles() {
  using Clock = std::chrono::steady_clock;
  // SIGTERM without any time to react would always end in a refusal, so `force` implies a wait.
  const double wait_s = options_.force && options_.wait_s == 0 ? kForcedWaitSeconds : options_.wait_s;
  const auto until = Clock::now() + std::chrono::duration<double>(wait_s);
  for (bool first = true;; first = false) {
    const auto in_use = obstacles(now_, steps_);
    if (in_use.empty()) return std::nullopt;
    observer_.waiting(in_use, first);
    // One signal per process: a process that shuts down in order must not receive SIGTERM ten times a second.
    for (const auto& obstacle : in_use) {
      // 0 and 1 would be this process group and the first process of the machine.
      if (first && options_.force && obstacle.pid >= 2) kill(obstacle.pid, SIGTERM);
    }
    if (observer_.stop_wanted()) return ChangeResult{.status = ChangeStatus::interrupted};
    if (Clock::now() >= until) return ChangeResult{.status = ChangeStatus::refused, .waited_s = wait_s};
    std::this_thread::sleep_for(options_.look_every);
    // Plans again, too: the process in the way may belong to a program that also moved the slice.
    if (const auto looked = look_again(); !looked) return failed(looked.error());
    observer_.replanned(steps_);
  }
}

ChangeResult Change::close_without_steps() {
  observer_.planned(steps_);
  if (!options_.dry_run) {
    const auto remains = keeper_.close_finished(now_, goals_);
    if (!remains) return failed(remains.error());
    if (*remains) observer_.earlier_change_remains();
  }
  return {.status = ChangeStatus::nothing_to_do, .changed = false};
}

ChangeResult Change::execute() {
  observer_.starting(keeper_.rolls_back());
  const auto told = [&](std::size_t index, const StepResult& result) {
    observer_.step_done(index, steps_[index], result);
  };
  const RecutRun run = run_recut(*driver_, steps_, told, [&] { return observer_.stop_wanted(); });
  return run.complete() ? finish() : stop(run);
}

ChangeResult Change::finish() {
  const auto count = steps_.size();
  // The driver answered that each step was done, but only what it reports now counts: a MIG manager may cut at the same
  // time, and a checkpoint that is closed too early would be replaced by the next change.
  if (const auto looked = look_again(); !looked) return failed(looked.error());
  if (!steps_.empty()) {
    return failed(
        {ErrorCode::unavailable,
         fmt::format(
             "the driver reports every step as done, but {} is still missing: another program changes these GPUs",
             to_text(steps_.front()))});
  }
  ChangeResult result{.status = ChangeStatus::done, .changed = true, .steps = count};
  // The cuts are as wanted even if this write fails. `changed` stays true so that the user learns both facts.
  if (const auto closed = keeper_.close(now_, goals_); !closed) {
    result.status = ChangeStatus::failed;
    result.error = closed.error();
    return result;
  }
  result.as_before = keeper_.rolls_back() || keeper_.checkpoint().state == ChangeState::undone;
  return result;
}

ChangeResult Change::stop(const RecutRun& run) {
  ChangeResult result{.status = run.error ? ChangeStatus::failed : ChangeStatus::interrupted,
                      .error = run.error,
                      .steps = steps_.size()};
  now_ = driver_->read();
  StoppedChange& stopped = result.stopped.emplace();
  stopped.done = run.done();
  stopped.made_anew = made_anew(start_, now_, goals_);
  // A step that failed may have changed a cut before it failed, so the cuts are compared as well.
  result.changed = run.done() > 0 || !same_cuts(start_, now_, goals_);
  if (const auto kept = keeper_.reconsider(now_, *result.changed); !kept) {
    result.status = ChangeStatus::failed;
    stopped.checkpoint_error = kept.error();
    return result;
  }
  stopped.way_back = way_back();
  return result;
}

std::optional<WayBack> Change::way_back() const {
  const auto stored = keeper_.stored(now_);
  // After a stopped rollback the same command is the way on, so no other way back is offered.
  if (keeper_.rolls_back() || !stored || !*stored) return std::nullopt;
  WayBack back{.checkpoint = **stored, .steps = {}};
  if (back.checkpoint.state == ChangeState::undone) return back;
  auto steps = plan_recut(now_, back.checkpoint.gpus);
  if (!steps) {
    back.error = steps.error();
  } else {
    back.steps = std::move(*steps);
  }
  return back;
}

}  // namespace tangram::recut

// One change of this machine's GPUs from the cuts they have to other cuts, with a way back.
//
// A change takes the lock, compares, plans its steps, waits for processes that use slices which must go, writes the
// checkpoint, does the steps one at a time and closes the checkpoint. Until the checkpoint is written nothing has been
// changed. After it, whatever happens (a step that fails, an interrupt, a killed process) leaves each GPU in a state
// from which the next change, forward or back, can be planned. A change prints nothing: it reports to a ChangeObserver
// while it runs, and returns a ChangeResult.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recut/checkpoint_keeper.h"

namespace tangram::recut {

struct ChangeOptions {
  bool dry_run = false;        // Plan only: no lock, no checkpoint, no step.
  bool force = false;          // Processes that use slices which must go get SIGTERM. None is killed.
  double wait_s = 0;           // How long to wait for them; with `force`, 0 means kForcedWaitSeconds.
  std::string directory = {};  // Of checkpoint and lock: see state_directory().
  // The driver reports the users of a slice only when asked. A change that waits asks this often.
  std::chrono::milliseconds look_every{100};
};
inline constexpr double kForcedWaitSeconds = 30;

// Receives the progress of a change, on the thread that runs it. Calls come in the order of their declaration; those
// about checkpoints come before and after the steps.
class ChangeObserver : public CheckpointObserver {
 public:
  // The GPUs of `goals` are all in `now`.
  virtual void compared(const std::vector<GpuGoal>& goals, const adapters::DriverReport& now) = 0;
  // Empty: nothing has to be done.
  virtual void planned(const std::vector<RecutStep>& steps) = 0;
  // Only in a dry run: what a real run would have to wait for, perhaps nothing.
  virtual void would_wait(const std::vector<Obstacle>& obstacles) = 0;
  // `first`: of this wait. With `force` their processes get SIGTERM after the first call.
  virtual void waiting(const std::vector<Obstacle>& obstacles, bool first) = 0;
  // After each look while the change waits: other programs may have moved slices meanwhile.
  virtual void replanned(const std::vector<RecutStep>& steps) = 0;
  // The checkpoint is on disk; the first step comes next.
  virtual void starting(bool rolls_back) = 0;
  virtual void step_done(std::size_t index, const RecutStep& step, const StepResult& result) = 0;
  // A rollback had nothing to undo, and the change before it can be undone now.
  virtual void earlier_change_remains() = 0;
  // Asked while the change waits and between two steps; true ends it there.
  virtual bool stop_wanted() = 0;
};

enum class ChangeStatus : std::uint8_t {
  nothing_to_do,
  planned,      // A dry run.
  done,         // Every goal is reached.
  refused,      // Slices stayed in use; nothing was changed.
  interrupted,  // stop_wanted(), before or between steps.
  failed,       // With `error`.
};

// What `tangram rollback` would do after a change that stopped.
struct WayBack {
  Checkpoint checkpoint;            // The one in the file.
  std::vector<RecutStep> steps;     // Empty if the checkpoint is undone.
  std::optional<Error> error = {};  // Why there are no steps: it could not start now.
};

// Of a change that ended after it had started its steps and before it had done them all.
struct StoppedChange {
  std::size_t done = 0;
  std::vector<MadeAnew> made_anew;
  std::optional<Error> checkpoint_error = {};  // The checkpoint could not be kept in order.
  std::optional<WayBack> way_back = {};        // Not for rollbacks, nor without a readable checkpoint.
};

struct ChangeResult {
  ChangeStatus status = ChangeStatus::failed;
  std::optional<Error> error = {};
  std::optional<bool> changed = {};  // Whether any cut differs from before; nothing where that was not looked at.
  double waited_s = 0;               // Of a change that was refused: how long it was ready to wait.
  std::size_t steps = 0;             // Of the plan that was started.
  bool as_before = false;            // Done, and every cut is as the checkpoint says: there is nothing to go back to.
  std::optional<StoppedChange> stopped = {};
};

// Where the work of a slice is reached.
struct SliceAddress {
  std::string device;
  std::string gpu_uuid;
  std::string slice;     // "3g.40gb@4"
  std::string mig_uuid;  // Empty if the slice has several parts or none.
};
std::vector<SliceAddress> slice_addresses(const adapters::DriverReport& now, const std::vector<GpuGoal>& goals);

// One object runs one change. Not safe for several threads.
class Change {
 public:
  // `observer` outlives it.
  Change(ChangeOptions options, ChangeObserver& observer);

  // Takes the lock, except for a dry run, opens the driver library at `library` (empty: the default one) and reads the
  // GPUs. Errors: another process has the lock, or there is no driver.
  Result<Nothing> open(const std::string& library);
  // The GPUs as last read.
  const adapters::DriverReport& now() const { return now_; }
  const std::string& checkpoint_file() const { return keeper_.path(); }

  // Changes the GPUs to `goals`. The checkpoint, written before the first step, names `plan` as the plan being applied.
  ChangeResult apply(const std::vector<GpuGoal>& goals, const std::string& plan);
  // Changes the GPUs back to `checkpoint`, the one of checkpoint_file(). An undone checkpoint is refused if the GPUs
  // differ from it, because another tool has cut them since.
  ChangeResult roll_back(const Checkpoint& checkpoint);

 private:
  // Requires open() and keeper_ begun. Decides which of the parts below run.
  ChangeResult run();
  // Ensures that steps_ lead from now_ to goals_. Errors: the goals cannot be reached from the present cuts.
  Result<Nothing> look_again();
  // Ensures that no process uses a slice that must go, or returns why the change ends here. Changes no GPU.
  std::optional<ChangeResult> clear_obstacles();
  // Requires steps_ empty. Closes the checkpoint of a change that another run or tool has finished.
  ChangeResult close_without_steps();
  // Requires the checkpoint on disk. Runs steps_, then finish() or stop().
  ChangeResult execute();
  // Requires that every step was done. Ensures that the driver agrees before the checkpoint is closed.
  ChangeResult finish();
  // Requires a run that failed or was interrupted. Steps that were done stay done.
  ChangeResult stop(const RecutRun& run);
  // Requires now_ read after the stop. Plans the way back of the checkpoint in the file, if there is one.
  std::optional<WayBack> way_back() const;

  ChangeOptions options_;
  ChangeObserver& observer_;
  CheckpointKeeper keeper_;
  std::unique_ptr<RecutLock> lock_;
  std::unique_ptr<adapters::MigDriver> driver_;
  std::vector<GpuGoal> goals_;
  adapters::DriverReport now_;
  adapters::DriverReport start_;  // What there was before the first step.
  std::vector<RecutStep> steps_;  // From now_ to goals_, as of the last look_again().
};

}  // namespace tangram::recut

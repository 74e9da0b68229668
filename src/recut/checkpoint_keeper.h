// The checkpoint file of one change: written before the first step, closed after the last.
//
// Invariants, which hold whenever the process may end:
//   1. Before the driver is asked for the first step, the file holds every GPU that the change may touch, as it was.
//   2. An open checkpoint is never replaced by a younger one unless every GPU of it is as it was: users want to go back
//      to the state before the interrupted change.
//   3. A change that left every GPU as it was restores the checkpoint that it replaced.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recut/checkpoint.h"

namespace tangram::recut {

// Why a checkpoint is kept open although the change at hand would replace or close it.
enum class CheckpointKept {
  unfinished,  // An earlier change stopped half way; its checkpoint is the one to go back to.
  half_way,    // Other GPUs of the same checkpoint have reached neither their goal nor their old cuts.
};

// Is told about the file before each write, so that a write that fails was announced, too.
class CheckpointObserver {
 public:
  virtual ~CheckpointObserver() = default;
  virtual void writing_checkpoint(const std::string& path) = 0;
  // `made`: when the change of the checkpoint that is kept began, in UTC.
  virtual void checkpoint_kept(CheckpointKept why, const std::string& made) = 0;
};

// Errors of all functions: the file cannot be read or written.
class CheckpointKeeper {
 public:
  // `observer` outlives it.
  CheckpointKeeper(std::string path, CheckpointObserver& observer) : path_(std::move(path)), observer_(observer) {}

  const std::string& path() const { return path_; }
  // The checkpoint of the change at hand.
  const Checkpoint& checkpoint() const { return checkpoint_; }
  bool rolls_back() const { return rolls_back_; }

  // One of the two is called first, once.
  void begin_apply(const std::string& plan);
  void begin_rollback(const Checkpoint& checkpoint);

  // The checkpoint in the file. Nothing if there is no file, or one that does not match the GPUs of this machine.
  Result<std::optional<Checkpoint>> stored(const adapters::DriverReport& now) const;

  // Before the first step: ensures invariants 1 and 2 for the GPUs of `goals`, each of which is in `now`. A rollback
  // reopens its checkpoint, since it may stop half way, too.
  Result<Nothing> prepare(const adapters::DriverReport& now, const std::vector<GpuGoal>& goals);
  // After all `goals` were reached: the checkpoint is done or undone, or stays open for GPUs that are half way.
  Result<Nothing> close(const adapters::DriverReport& now, const std::vector<GpuGoal>& goals);
  // Requires that nothing has to be done. Another tool, or a run that was killed at its end, may have finished the
  // change in the file. True if this is a rollback and an earlier change can be undone now.
  Result<bool> close_finished(const adapters::DriverReport& now, const std::vector<GpuGoal>& goals);
  // After a stop. `changed`: some cut differs from what prepare() saw.
  Result<Nothing> reconsider(const adapters::DriverReport& now, bool changed);

 private:
  // Requires that `now` has the GPUs of `goals`. Ensures that each is in checkpoint_; GPUs already there are kept as
  // noted, with what others use by now. Error: others use what the note of a GPU does not have.
  Result<Nothing> add(const adapters::DriverReport& now, const std::vector<GpuGoal>& goals);
  // Writes checkpoint_ whole or not at all.
  Result<Nothing> store(const adapters::DriverReport& now);
  // Requires that every GPU is as the checkpoint says. A rollback that did steps is undone; any other change did not
  // happen, which ensures invariant 3.
  Result<Nothing> take_back(const adapters::DriverReport& now);

  std::string path_;
  CheckpointObserver& observer_;
  Checkpoint checkpoint_;
  bool rolls_back_ = false;
  bool prepared_ = false;                         // Steps may have been done.
  ChangeState state_before_ = ChangeState::open;  // Of the checkpoint that a rollback goes back to.
};

}  // namespace tangram::recut

// What GPUs were before they were cut, kept so that the way back can be found after anything.
//
// There is one checkpoint: of the last change that really happened. It is open while the change is under way, and after
// it has stopped half way; the next change then keeps it, because what it holds is what people want back. It is closed
// when all of its GPUs have come to where they were to go (done), or back to where they were (undone): only a change
// that is not undone can be rolled back. A change that left every GPU as it was has not happened, and the checkpoint
// that stood there before it stands there again.
//
// The file is one that nvidia-mig-parted restores, too: its keys and numbers are those of that tool, and what we add
// stands beside them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "recut/recut.h"

namespace tangram::recut {

enum class ChangeState : std::uint8_t { open, done, undone };

struct Checkpoint {
  std::string plan;  // The file that was being applied.
  std::string made;  // When, in UTC: "2026-11-16T08:00:00Z".
  ChangeState state = ChangeState::open;
  std::vector<GpuGoal> gpus;
  std::string previous = {};  // While it is open: the text of the one whose place it took; empty if there was none.
};

// The same checkpoint gives the same bytes. Every slice has its parts named, as goal_of() does; the numbers of profiles
// are those of `driver`, which has all GPUs of the checkpoint.
std::string write_checkpoint(const Checkpoint& checkpoint, const adapters::DriverReport& driver);
// Also of the files that nvidia-mig-parted writes. `driver` says what the numbers mean. Errors name `path` and say what
// is wrong: another version, a GPU that is not there, a profile that it does not have, slices that overlap.
Result<Checkpoint> read_checkpoint(const std::string& path, const std::string& text,
                                   const adapters::DriverReport& driver);

// True if every GPU of the checkpoint is cut as it was.
bool is_as_it_was(const Checkpoint& checkpoint, const adapters::DriverReport& now);
// True if no GPU of the checkpoint is half way, once `goals` are reached: each is one of them, or as it was.
bool is_settled(const Checkpoint& checkpoint, const std::vector<GpuGoal>& goals, const adapters::DriverReport& now);

// The directory for what must survive a run: `wanted`, $TANGRAM_STATE, /var/lib/tangram for root, or
// $XDG_STATE_HOME/tangram, which is ~/.local/state/tangram where that is not set.
std::string state_directory(const std::string& wanted);
std::string checkpoint_path(const std::string& directory);

// One process at a time may cut GPUs. It ends with the process, however that ends.
class RecutLock {
 public:
  // Makes the directory if need be. Errors: it cannot be written, or another process has the lock.
  static Result<std::unique_ptr<RecutLock>> take(const std::string& directory);
  explicit RecutLock(int file) : file_(file) {}
  ~RecutLock();
  RecutLock(const RecutLock&) = delete;
  RecutLock& operator=(const RecutLock&) = delete;

 private:
  int file_;
};

}  // namespace tangram::recut

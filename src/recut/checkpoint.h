// The cuts of GPUs before a change, saved so that the change can be undone whatever happens.
//
// There is one checkpoint, of the last change that really happened. It is open while the change is in progress and
// after it has stopped half way; the next change then keeps it, because users want to return to the state before the
// interrupted change. It is closed when all of its GPUs have reached their goals (done) or their old cuts (undone).
// Only a change that is not undone can be rolled back. A change that left every GPU as it was did not happen, and the
// checkpoint that it replaced is restored.
//
// nvidia-mig-parted can restore the file, too: it has the keys and numbers of that tool, and our own keys beside them.
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

// The same checkpoint gives the same bytes. Every slice has its parts named, as goal_of() does. Profile numbers are
// those of `driver`, which has all GPUs of the checkpoint.
std::string write_checkpoint(const Checkpoint& checkpoint, const adapters::DriverReport& driver);
// Also reads the files of nvidia-mig-parted. `driver` says what the numbers mean. Errors name `path` and the problem:
// another version, a GPU that does not exist, a profile that it does not have, slices that overlap.
Result<Checkpoint> read_checkpoint(const std::string& path, const std::string& text,
                                   const adapters::DriverReport& driver);

// True if every GPU of the checkpoint is cut as it was.
bool is_as_it_was(const Checkpoint& checkpoint, const adapters::DriverReport& now);
// True if no GPU of the checkpoint is half way, once `goals` are reached: each is one of them, or as it was.
bool is_settled(const Checkpoint& checkpoint, const std::vector<GpuGoal>& goals, const adapters::DriverReport& now);

// The directory for files that must survive a run: `wanted`, $TANGRAM_STATE, /var/lib/tangram for root, or
// $XDG_STATE_HOME/tangram, which is ~/.local/state/tangram if the variable is not set.
std::string state_directory(const std::string& wanted);
std::string checkpoint_path(const std::string& directory);

// Ensures that one process at a time cuts GPUs. The kernel releases the lock when the process ends, however it ends.
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

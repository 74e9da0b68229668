// What GPUs were before they were cut, kept so that the way back can be found after anything.
//
// The file is one that nvidia-mig-parted restores, too: its keys and numbers are those of that tool, and what we add
// stands beside them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/recut.h"

namespace tangram::cli {

struct Checkpoint {
  std::string plan;       // The file that was being applied.
  std::string made;       // When, in UTC: "2026-11-16T08:00:00Z".
  bool finished = false;  // What was begun after it came to its end.
  std::vector<GpuGoal> gpus;
};

// The same checkpoint gives the same bytes. Every slice has its parts named, as goal_of() does; the numbers of profiles
// are those of `driver`, which has all GPUs of the checkpoint.
std::string write_checkpoint(const Checkpoint& checkpoint, const adapters::DriverReport& driver);
// Also of the files that nvidia-mig-parted writes. `driver` says what the numbers mean. Errors name `path` and say what
// is wrong: another version, a GPU that is not there, a profile that it does not have, slices that overlap.
Result<Checkpoint> read_checkpoint(const std::string& path, const std::string& text,
                                   const adapters::DriverReport& driver);

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

}  // namespace tangram::cli

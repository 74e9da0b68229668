// What `tangram apply` and `tangram rollback` have in common: the driver, the lock, the checkpoint, and the steps with
// what is said about them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recut/checkpoint.h"
#include "cli/program.h"
#include "recut/recut.h"

namespace tangram::cli {

struct RecutOptions {
  bool dry_run = false;
  bool force = false;  // Processes that are in the way are asked to end.
  double wait_s = 0;   // For them to end.
  std::string state;   // The directory of checkpoint and lock; empty: the usual one.
};

void add_recut_options(Program& program, Arguments& verb, RecutOptions& options);
// Sentences about exit codes for the help of both verbs.
extern const char* const kRecutExitCodes;

class RecutSession {
 public:
  RecutSession(Session& session, RecutOptions options);
  ~RecutSession();
  RecutSession(const RecutSession&) = delete;
  RecutSession& operator=(const RecutSession&) = delete;

  // Takes the lock, but for a dry run, opens the driver and reads what there is. Warns of other owners.
  Result<Nothing> open();
  const adapters::DriverReport& now() const { return now_; }
  std::string checkpoint_file() const { return recut::checkpoint_path(directory_); }
  // Added to the answer for programs.
  report::Json& json() { return json_; }

  // From what there is to `goals`, with a checkpoint before the first step that says `plan` was being applied.
  ExitCode apply(const std::vector<recut::GpuGoal>& goals, const std::string& plan);
  // Back to `checkpoint`, the one of checkpoint_file(). One that is undone is refused where the GPUs are cut otherwise:
  // others cut them since.
  ExitCode roll_back(const recut::Checkpoint& checkpoint);

 private:
  // What happened to the steps, and what is said at the end.
  struct Ending {
    std::string status;
    ExitCode code = ExitCode::done;
  };

  ExitCode run(const std::vector<recut::GpuGoal>& goals);
  Result<Nothing> look_again(const std::vector<recut::GpuGoal>& goals);
  Ending go(const std::vector<recut::GpuGoal>& goals);
  bool clear_the_way(const std::vector<recut::GpuGoal>& goals, Ending& ending);
  Ending nothing_to_do(const std::vector<recut::GpuGoal>& goals);
  Result<Nothing> prepare(const std::vector<recut::GpuGoal>& goals);
  Result<Nothing> add_to_checkpoint(const std::vector<recut::GpuGoal>& goals);
  Result<std::optional<recut::Checkpoint>> stored_checkpoint() const;
  Result<Nothing> store_checkpoint();
  Result<Nothing> close_checkpoint(const std::vector<recut::GpuGoal>& goals);
  Result<Nothing> take_checkpoint_back();
  Result<Nothing> reconsider_checkpoint(bool changed);
  Ending execute(const std::vector<recut::GpuGoal>& goals);
  Ending finish(const std::vector<recut::GpuGoal>& goals);
  Ending stop(const recut::RecutRun& run, const std::vector<recut::GpuGoal>& goals);
  void tell_way_back(std::string_view changed);
  void print_goals(const std::vector<recut::GpuGoal>& goals);
  void print_steps();
  void print_slices(const std::vector<recut::GpuGoal>& goals);
  Ending failed(const Error& error);

  Session& session_;
  RecutOptions options_;
  std::string directory_;
  std::unique_ptr<recut::RecutLock> lock_;
  std::unique_ptr<adapters::MigDriver> driver_;
  adapters::DriverReport now_;
  recut::Checkpoint checkpoint_;
  adapters::DriverReport start_;                  // What there was before the first step.
  recut::ChangeState state_before_ = recut::ChangeState::open;  // Of a checkpoint that is gone back to.
  bool rolls_back_ = false;
  std::vector<recut::RecutStep> steps_;
  report::Json json_;
};

}  // namespace tangram::cli

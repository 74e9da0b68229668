// What `tangram apply` and `tangram rollback` have in common: their options, and what they say about a change.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/interrupt.h"
#include "cli/program.h"
#include "recut/change.h"

namespace tangram::cli {

struct RecutOptions {
  bool dry_run = false;
  bool force = false;  // Processes that use slices which must go are asked to end.
  double wait_s = 0;   // For them to end.
  std::string state;   // The directory of checkpoint and lock; empty: the usual one.
};

void add_recut_options(Program& program, Arguments& verb, RecutOptions& options);
// Sentences about exit codes for the help of both verbs.
extern const char* const kRecutExitCodes;
recut::ChangeOptions change_options(const RecutOptions& options);

// Prints a change while it happens, and collects the same as a JSON document, whose keys are in the order of these
// calls. From the moment that the steps are printed, Ctrl-C ends the change between two steps.
class RecutView final : public recut::ChangeObserver {
 public:
  RecutView(Session& session, RecutOptions options) : session_(session), options_(std::move(options)) {}

  // Warns of other programs that cut the GPUs of this machine.
  void warn_of_owners();
  // `about`: what the verb knows of the change, for programs.
  void begin(const report::Json& about);
  // `now`: after the change. The exit code of the verb.
  ExitCode end(const recut::ChangeResult& result, const adapters::DriverReport& now);

  void compared(const std::vector<recut::GpuGoal>& goals, const adapters::DriverReport& now) override;
  void planned(const std::vector<recut::RecutStep>& steps) override;
  void would_wait(const std::vector<recut::Obstacle>& obstacles) override;
  void waiting(const std::vector<recut::Obstacle>& obstacles, bool first) override;
  void replanned(const std::vector<recut::RecutStep>& steps) override;
  void writing_checkpoint(const std::string& path) override;
  void checkpoint_kept(recut::CheckpointKept why, const std::string& made) override;
  void starting(bool rolls_back) override;
  void step_done(std::size_t index, const recut::RecutStep& step, const recut::StepResult& result) override;
  void earlier_change_remains() override;
  bool stop_wanted() override { return interrupt_ && interrupt_->interrupted(); }

 private:
  // Reports the error to the user and in the document. Returns its exit code.
  ExitCode fail(const Error& error);
  // Reports an end without unfinished steps. Requires that step_done() was called for every step that ran.
  ExitCode tell_end(const recut::ChangeResult& result, const adapters::DriverReport& now);
  // Reports a change that stopped between two steps or at one. Requires result.stopped and result.changed.
  ExitCode tell_stop(const recut::ChangeResult& result);
  // Says what a rollback would do now. `changed` is the beginning of a sentence on what is different.
  void tell_way_back(const recut::WayBack& back, std::string_view changed);
  // Ensures that steps_ and the document have these steps.
  void print_steps(const std::vector<recut::RecutStep>& steps);
  // Requires compared(). `now` is read after the change.
  void print_slices(const adapters::DriverReport& now);

  Session& session_;
  RecutOptions options_;
  std::vector<recut::GpuGoal> goals_;  // As of compared().
  std::size_t steps_ = 0;              // As last planned.
  std::string checkpoint_;             // The file, once one is written.
  bool rolls_back_ = false;            // As of starting().
  std::optional<InterruptGuard> interrupt_;
  report::Json json_;
};

}  // namespace tangram::cli

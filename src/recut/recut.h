// Changes GPUs from one set of cuts to another, one step at a time.
//
// Slices that are already right are never touched. The order of the steps comes from plan::transition; MIG mode is
// enabled before all steps that need it and disabled after all others. A rollback is the same operation: its goal is
// what a checkpoint says.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "adapters/nvml/mig_driver.h"
#include "plan/transition.h"
#include "recut/live_gpus.h"

namespace tangram::recut {

// What one GPU has to become.
struct GpuGoal {
  std::string device;  // How people call it: its name in the plan, or "GPU 0".
  std::string gpu_uuid;
  int gpu_index = 0;
  Geometry geometry;
  bool mig = true;  // MIG mode is on.
  Layout layout;
  // The parts of its slices, by their starts. A slice that is not named has one part with everything.
  std::map<int, std::vector<adapters::SlicePart>> parts;
  // Those of `layout` that others use: they have to be there already, and no step makes, changes or removes them.
  Layout reserved = {};
};

// The goals of a plan. MIG mode stays as it is where the plan has no slice.
std::vector<GpuGoal> goals_of(const std::vector<MatchedDevice>& matched);
// The GPU as it is now, with the parts of every slice. Errors: slices that the tables do not know, or that the driver
// does not report.
Result<GpuGoal> goal_of(const adapters::DriverGpu& gpu, const std::string& device);

enum class RecutAction {
  enable_mig,
  destroy,
  remake_parts,  // The slice stays; how its compute is shared out changes.
  create,
  disable_mig,
};
std::string_view to_string(RecutAction action);

struct RecutStep {
  RecutAction action = RecutAction::create;
  std::string device;
  std::string gpu_uuid;
  int gpu_index = 0;
  std::string slice;  // "3g.40gb@4"; empty for a change of mode.
  adapters::SliceOrder order;
  Duration expected{};  // Zero if it was never measured.
};
// "create 3g.40gb@4 on rack1-0 (GPU 0)"
std::string to_text(const RecutStep& step);

// The steps from the driver's report to the goals; empty if nothing has to be done. Errors: a GPU that does not exist,
// cannot be read, needs a reset, holds slices that the tables do not know, or lacks a slice that others use; a start
// that the driver does not offer.
Result<std::vector<RecutStep>> plan_recut(const adapters::DriverReport& now, const std::vector<GpuGoal>& goals,
                                          const plan::RecutTimes& times = {});

// A process that uses a slice or GPU that a step changes.
struct Obstacle {
  int pid = 0;
  std::string command;  // Its name; empty if it is not ours to see.
  std::string where;    // "3g.40gb@4 of rack1-0 (GPU 0)"
};
// The processes that block `steps`, each once, in the order of the steps.
std::vector<Obstacle> obstacles(const adapters::DriverReport& now, const std::vector<RecutStep>& steps);

// A MIG device that was destroyed and created again in the same place. It has a new UUID, and programs know it only by
// its UUID.
struct MadeAnew {
  std::string where;  // "3g.40gb@4 of rack1-0 (GPU 0)"
  std::string before;
  std::string after;
};
std::vector<MadeAnew> made_anew(const adapters::DriverReport& before, const adapters::DriverReport& now,
                                const std::vector<GpuGoal>& goals);

enum class StepOutcome { done, failed, not_reached };
struct StepResult {
  StepOutcome outcome = StepOutcome::not_reached;
  double seconds = 0;
};
struct RecutRun {
  std::vector<StepResult> results;  // One for each step.
  std::optional<Error> error;       // Of the step that failed.
  bool interrupted = false;

  std::size_t done() const;
  bool complete() const { return done() == results.size(); }
};

// Executes the steps in order. Stops at the first one that fails, or between two steps when `interrupted` returns true.
// `told` is called after each step.
RecutRun run_recut(adapters::MigDriver& driver, const std::vector<RecutStep>& steps,
                   const std::function<void(std::size_t, const StepResult&)>& told,
                   const std::function<bool()>& interrupted);

}  // namespace tangram::recut

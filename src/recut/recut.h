// GPUs from one set of cuts to another, one step at a time.
//
// What is right already is never touched. The order comes from plan::transition; a change of MIG mode stands before or
// after everything that it makes possible. The way back is the same thing: the goal is then what a checkpoint says.
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

// What one GPU is to be.
struct GpuGoal {
  std::string device;  // How people call it: its name in the plan, or "GPU 0".
  std::string gpu_uuid;
  int gpu_index = 0;
  Geometry geometry;
  bool mig = true;  // MIG mode is on.
  Layout layout;
  // The parts of its slices, by their starts. A slice that is not named has one part with everything.
  std::map<int, std::vector<adapters::SlicePart>> parts;
};

// As a plan has it. MIG mode stays as it is where the plan has no slice.
std::vector<GpuGoal> goals_of(const std::vector<MatchedDevice>& matched);
// As the GPU is, every part named. Errors: slices that the tables do not know, or that the driver does not tell.
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
  Duration expected{};  // Zero: nobody has measured it.
};
// "create 3g.40gb@4 on rack1-0 (GPU 0)"
std::string to_text(const RecutStep& step);

// The steps from what the driver says to the goals; empty: there is nothing to do. Errors: a GPU that is not there,
// cannot be read, waits for a reset, or holds slices that the tables do not know; a place that the driver does not
// have.
Result<std::vector<RecutStep>> plan_recut(const adapters::DriverReport& now, const std::vector<GpuGoal>& goals,
                                          const plan::RecutTimes& times = {});

// A process in the way of a step.
struct Obstacle {
  int pid = 0;
  std::string command;  // Its name; empty if it is not ours to see.
  std::string where;    // "3g.40gb@4 of rack1-0 (GPU 0)"
};
std::vector<Obstacle> obstacles(const adapters::DriverReport& now, const std::vector<RecutStep>& steps);

// A MIG device in the place of another, on a slice that was taken apart and made again as it was. Programs know it by
// its UUID alone.
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

// Does the steps in their order and stops at the first that fails, or between two when `interrupted` says so. `told` is
// called after each.
RecutRun run_recut(adapters::MigDriver& driver, const std::vector<RecutStep>& steps,
                   const std::function<void(std::size_t, const StepResult&)>& told,
                   const std::function<bool()>& interrupted);

}  // namespace tangram::recut

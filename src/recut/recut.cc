// Plans the steps from the cuts that the driver reports to the cuts that are wanted, and executes them.
//
// The idea: take the difference of two plans without replicas and let plan::transition order it, so that apply and
// rollback share one code path; a rollback only has another goal. A slice is identified by its vendor profile and its
// start, never by a driver handle or MIG UUID, because both change each time the slice is created. For example, a GPU
// with 4g.40gb@0 whose goal is 4g.40gb@0 + 3g.40gb@4 gets the single step "create 3g.40gb@4".
//
// Invariant: planning reads a report and changes nothing. Only do_step() writes to the driver, one step per call.

#include "recut/recut.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "base/text.h"

namespace tangram::recut {
namespace {

using adapters::DriverGpu;
using adapters::DriverReport;
using adapters::DriverSlice;
using adapters::SlicePart;

std::string slice_name(const Geometry& geometry, const Slice& slice) {
  return fmt::format("{}@{}", geometry.profiles[slice.profile].name, slice.start);
}

// Names both the plan's device and the driver's index, because nvidia-smi and its users know a GPU only by the index.
std::string gpu_name(const std::string& device, int index) {
  const std::string plain = fmt::format("GPU {}", index);
  return device == plain ? plain : fmt::format("{} ({})", device, plain);
}

// A device without replicas that has `layout`. It serves for the goal and for the GPU as it is now, so that
// plan::transition compares like with like.
PlannedDevice as_device(const GpuGoal& goal, const Layout& layout) {
  PlannedDevice device{goal.device, goal.geometry.type, goal.geometry, {}};
  for (const auto& slice : layout.slices) device.slices.push_back({slice, {}});
  return device;
}

// Compares parts by profile number and start. Their UUIDs do not count: a part that was made again has another one.
bool same_parts(const DriverSlice& live, const std::vector<SlicePart>& wanted) {
  return std::ranges::equal(live.parts, wanted, [](const SlicePart& a, const SlicePart& b) {
    return a.number == b.number && a.start == b.start;
  });
}

// Plans the steps of one change. MIG mode is enabled first, because nothing can be cut without it, and disabled last,
// because that destroys every slice. Parts are remade before slices are created, since that needs no free memory units.
class RecutPlanner {
 public:
  RecutPlanner(const DriverReport& now, const std::vector<GpuGoal>& goals, const plan::RecutTimes& times)
      : now_(now), goals_(goals), times_(times) {}

  Result<std::vector<RecutStep>> run() {
    for (const auto& goal : goals_) {
      TANGRAM_RETURN_IF_ERROR(look_at(goal));
    }
    for (const auto& goal : goals_) add_parts(goal);
    TANGRAM_RETURN_IF_ERROR(add_cuts());
    for (const auto& goal : goals_) {
      const bool on = gpu_of(goal).mig_enabled;
      if (on && !goal.mig) steps_.push_back(step_of(RecutAction::disable_mig, goal));
    }
    return std::move(steps_);
  }

 private:
  // Requires look_at(goal).
  const DriverGpu& gpu_of(const GpuGoal& goal) const {
    return *std::ranges::find(now_.gpus, goal.gpu_uuid, &DriverGpu::uuid);
  }

  static RecutStep step_of(RecutAction action, const GpuGoal& goal) {
    RecutStep step;
    step.action = action;
    step.device = goal.device;
    step.gpu_uuid = goal.gpu_uuid;
    step.gpu_index = goal.gpu_index;
    return step;
  }

  // Without parts in the goal, `order.parts` stays empty and the driver gives the slice one part with everything.
  static RecutStep step_of(RecutAction action, const GpuGoal& goal, const Slice& slice) {
    RecutStep step = step_of(action, goal);
    step.slice = slice_name(goal.geometry, slice);
    step.order = {goal.geometry.profiles[slice.profile].vendor_id, slice.start, std::nullopt};
    const auto parts = goal.parts.find(slice.start);
    if (parts != goal.parts.end()) step.order.parts = parts->second;
    return step;
  }

  // Ensures that the GPU can be planned for, and that before_ and after_ have it. Adds the step that turns MIG mode on.
  Result<Nothing> look_at(const GpuGoal& goal) {
    const auto found = std::ranges::find(now_.gpus, goal.gpu_uuid, &DriverGpu::uuid);
    const auto wrong = [&](std::string_view reason) {
      return Error{ErrorCode::unavailable, fmt::format("{}: {}", gpu_name(goal.device, goal.gpu_index), reason)};
    };
    if (found == now_.gpus.end()) {
      return Error{ErrorCode::not_found, fmt::format("{}: no GPU has the UUID {}", goal.device, goal.gpu_uuid)};
    }
    TANGRAM_TRY(auto live, goal_of(*found, goal.device));
    if (const auto problem = lacks_reserved(goal, live.layout); !problem.empty()) return wrong(problem);
    // Some boards change their mode only with a reset, which ends every process on them. The user has to decide that.
    const bool changes_mode = goal.mig != found->mig_enabled;
    if (changes_mode && found->mig_pending != found->mig_enabled) {
      return wrong(fmt::format(
          "MIG mode is {} only after a reset of the GPU: run nvidia-smi --gpu-reset -i {}, then this command again",
          found->mig_pending ? "on" : "off", found->index));
    }
    if (const auto problem = wrong_place(goal, *found); !problem.empty()) return wrong(problem);
    if (changes_mode && goal.mig) steps_.push_back(step_of(RecutAction::enable_mig, goal));
    before_.devices.push_back(as_device(goal, live.layout));
    after_.devices.push_back(as_device(goal, goal.layout));
    return Nothing{};
  }

  // Nobody but their users makes and removes the slices that others use, so a GPU without one of them is not what the
  // plan was made for: its places may belong to a slice that nobody told us of.
  static std::string lacks_reserved(const GpuGoal& goal, const Layout& live) {
    std::vector<std::string> missing;
    for (const auto& slice : goal.reserved.slices) {
      if (std::ranges::find(live.slices, slice) == live.slices.end())
        missing.push_back(slice_name(goal.geometry, slice));
    }
    if (missing.empty()) return "";
    return fmt::format(
        "others use {} (reserved), but the GPU is cut {}; reserved slices are never created or destroyed here: have "
        "them created, or correct `reserved` in the fleet and plan anew",
        fmt::join(missing, ", "), to_string(goal.geometry, live));
  }

  // Our tables may be wrong about a board; the driver is right, so its starts are checked before anything is destroyed.
  // It lists profiles only while MIG mode is on.
  static std::string wrong_place(const GpuGoal& goal, const DriverGpu& gpu) {
    for (const auto& slice : goal.layout.slices) {
      const auto& profile = goal.geometry.profiles[slice.profile];
      const auto listed = std::ranges::find(gpu.profiles, profile.vendor_id, &adapters::DriverProfile::vendor_id);
      // With MIG mode off the list may be empty. The check is then left to the driver's own create call.
      if (listed == gpu.profiles.end() && !gpu.mig_enabled) continue;
      if (listed == gpu.profiles.end()) return fmt::format("the driver does not offer {}", profile.name);
      // Some drivers list a profile without its starts while MIG mode is off; that is no reason to reject the slice.
      const bool told = !listed->starts.empty();
      if (told && std::ranges::find(listed->starts, slice.start) == listed->starts.end()) {
        return fmt::format("the driver lets {} start at {}, not at {}", profile.name, fmt::join(listed->starts, ", "),
                           slice.start);
      }
    }
    return "";
  }

  // Adds a step for each slice that stays but whose compute is divided differently from the goal.
  void add_parts(const GpuGoal& goal) {
    for (const auto& slice : goal.layout.slices) {
      // How others share out their slices is their business.
      if (std::ranges::find(goal.reserved.slices, slice) != goal.reserved.slices.end()) continue;
      const int id = goal.geometry.profiles[slice.profile].vendor_id;
      for (const auto& live : gpu_of(goal).slices) {
        if (live.start != slice.start || live.vendor_id != id) continue;
        // A goal without parts for this slice wants one part with everything, which the driver reports as `whole`.
        const auto wanted = goal.parts.find(slice.start);
        const bool right = wanted == goal.parts.end() ? live.whole : same_parts(live, wanted->second);
        if (!right) steps_.push_back(step_of(RecutAction::remake_parts, goal, slice));
      }
    }
  }

  // Requires look_at() of all goals. The order comes from plan::transition. Slices are neither renamed nor moved,
  // because programs find a slice by its place. Temporary slices are off: there are no replicas to keep serving
  // meanwhile.
  Result<Nothing> add_cuts() {
    plan::TransitionOptions options;
    options.match = {.rename = false, .move = false};
    options.temporaries = false;
    options.recut = times_;
    TANGRAM_TRY(const auto moved, plan::transition(before_, after_, options));
    for (const auto& step : moved.steps) {
      const bool destroys = step.action == plan::StepAction::destroy;
      TANGRAM_CHECK(destroys || step.action == plan::StepAction::create, "a plan without replicas is only cut");
      const auto goal = std::ranges::find(goals_, step.device, &GpuGoal::device);
      // The driver creates and destroys one slice per call, so the time of a step with several slices is divided
      // evenly.
      for (const auto& slice : step.slices) {
        steps_.push_back(step_of(destroys ? RecutAction::destroy : RecutAction::create, *goal, slice));
        steps_.back().expected = step.takes / static_cast<std::int64_t>(step.slices.size());
      }
    }
    return Nothing{};
  }

  const DriverReport& now_;
  const std::vector<GpuGoal>& goals_;
  const plan::RecutTimes& times_;
  Plan before_;
  Plan after_;
  std::vector<RecutStep> steps_;
};

// The name of the process; empty if it has ended or runs in another PID namespace.
std::string command_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

// The place of a MIG device: one part of one slice. Unlike the UUID it is the same before and after a re-cut.
struct PartPlace {
  int start = 0;
  int vendor_id = 0;
  int part_start = 0;
  int part_number = 0;

  auto operator<=>(const PartPlace&) const = default;
};

// The MIG UUIDs of one GPU by place; empty if the report does not have the GPU.
std::map<PartPlace, std::string> uuids_of(const DriverReport& report, const std::string& gpu_uuid) {
  std::map<PartPlace, std::string> uuids;
  const auto gpu = std::ranges::find(report.gpus, gpu_uuid, &DriverGpu::uuid);
  if (gpu == report.gpus.end()) return uuids;
  for (const auto& slice : gpu->slices) {
    for (const auto& part : slice.parts) {
      uuids[{slice.start, slice.vendor_id, part.start, part.number}] = part.uuid;
    }
  }
  return uuids;
}

Result<Nothing> do_step(adapters::MigDriver& driver, const RecutStep& step) {
  switch (step.action) {
    case RecutAction::enable_mig: return driver.set_mig_mode(step.gpu_uuid, true);
    case RecutAction::disable_mig: return driver.set_mig_mode(step.gpu_uuid, false);
    case RecutAction::destroy: return driver.destroy(step.gpu_uuid, step.order);
    case RecutAction::create: return driver.create(step.gpu_uuid, step.order);
    case RecutAction::remake_parts: return driver.remake_parts(step.gpu_uuid, step.order);
  }
  return Nothing{};
}

}  // namespace

std::vector<GpuGoal> goals_of(const std::vector<MatchedDevice>& matched) {
  std::vector<GpuGoal> goals;
  for (const auto& [device, gpu] : matched) {
    // MIG mode stays on for a GPU without planned slices: disabling it would disturb a GPU that the plan leaves alone.
    const bool mig = gpu->mig_enabled || !device->slices.empty();
    goals.push_back(
        {device->name, gpu->uuid, gpu->index, device->geometry, mig, layout_of(*device), {}, reserved_of(*device)});
  }
  return goals;
}

Result<GpuGoal> goal_of(const DriverGpu& gpu, const std::string& device) {
  const auto wrong = [&](std::string_view reason) {
    return Error{ErrorCode::unavailable, fmt::format("{}: {}", gpu_name(device, gpu.index), reason)};
  };
  const Geometry* geometry = geometry_of(gpu);
  if (geometry == nullptr) return wrong("its type is unknown");
  if (!gpu.problem.empty()) return wrong(gpu.problem);
  // An unknown slice would be invisible to the comparison, and a later create could fail on it half way through a
  // change. So it is an error before the first step.
  auto recognised = adapters::recognise_layout(*geometry, gpu);
  if (!recognised.unknown.empty()) {
    return wrong(fmt::format("it has slices of unknown profiles ({}); remove them with nvidia-smi first",
                             fmt::join(recognised.unknown, ", ")));
  }
  GpuGoal goal{device, gpu.uuid, gpu.index, *geometry, gpu.mig_enabled, std::move(recognised.layout), {}};
  // Every slice gets its parts, even a whole one, so that a rollback restores exactly what there was.
  for (const auto& slice : gpu.slices) goal.parts[slice.start] = slice.parts;
  return goal;
}

std::string_view to_string(RecutAction action) {
  switch (action) {
    case RecutAction::enable_mig: return "enable MIG mode";
    case RecutAction::destroy: return "destroy";
    case RecutAction::remake_parts: return "share out anew";
    case RecutAction::create: return "create";
    case RecutAction::disable_mig: return "disable MIG mode";
  }
  return "";
}

std::string to_text(const RecutStep& step) {
  const std::string gpu = gpu_name(step.device, step.gpu_index);
  return step.slice.empty() ? fmt::format("{} on {}", to_string(step.action), gpu)
                            : fmt::format("{} {} on {}", to_string(step.action), step.slice, gpu);
}

Result<std::vector<RecutStep>> plan_recut(const DriverReport& now, const std::vector<GpuGoal>& goals,
                                          const plan::RecutTimes& times) {
  return RecutPlanner(now, goals, times).run();
}

std::vector<Obstacle> obstacles(const DriverReport& now, const std::vector<RecutStep>& steps) {
  std::vector<Obstacle> list;
  for (const auto& step : steps) {
    // A slice is created where no slice is, so no process can be in its way.
    if (step.action == RecutAction::create) continue;
    const auto gpu = std::ranges::find(now.gpus, step.gpu_uuid, &DriverGpu::uuid);
    const std::string where = gpu_name(step.device, step.gpu_index);
    for (const auto& process : gpu->processes) {
      // A change of MIG mode affects every process of the GPU.
      const bool mode = step.slice.empty();
      if (!mode && process.slice_start != step.order.start) continue;
      // Each process is listed once, with the first step that it blocks, so that it gets one signal and not one per
      // step.
      if (std::ranges::find(list, process.pid, &Obstacle::pid) != list.end()) continue;
      list.push_back({process.pid, command_of(process.pid), mode ? where : step.slice + " of " + where});
    }
  }
  return list;
}

std::vector<MadeAnew> made_anew(const DriverReport& before, const DriverReport& now,
                                const std::vector<GpuGoal>& goals) {
  std::vector<MadeAnew> list;
  for (const auto& goal : goals) {
    const auto was = uuids_of(before, goal.gpu_uuid);
    for (const auto& [place, uuid] : uuids_of(now, goal.gpu_uuid)) {
      const auto found = was.find(place);
      // Only places that had a MIG device before: no program knows an old UUID of a new place.
      if (found == was.end() || found->second == uuid) continue;
      const auto profile = std::ranges::find(goal.geometry.profiles, place.vendor_id, &MigProfile::vendor_id);
      const std::string name = profile == goal.geometry.profiles.end() ? "a slice" : profile->name;
      list.push_back(
          {fmt::format("{}@{} of {}", name, place.start, gpu_name(goal.device, goal.gpu_index)), found->second, uuid});
    }
  }
  return list;
}

std::size_t RecutRun::done() const {
  return static_cast<std::size_t>(std::ranges::count(results, StepOutcome::done, &StepResult::outcome));
}

RecutRun run_recut(adapters::MigDriver& driver, const std::vector<RecutStep>& steps,
                   const std::function<void(std::size_t, const StepResult&)>& told,
                   const std::function<bool()>& interrupted) {
  RecutRun run;
  run.results.resize(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    // Asked between steps only. A step that is cut off in the middle would leave a slice without its parts.
    run.interrupted = interrupted();
    if (run.interrupted) return run;
    const auto began = std::chrono::steady_clock::now();
    const auto answer = do_step(driver, steps[i]);
    StepResult& result = run.results[i];
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    result.outcome = answer ? StepOutcome::done : StepOutcome::failed;
    if (!answer) {
      run.error = Error{answer.error().code, fmt::format("cannot {}: {}", to_text(steps[i]), answer.error().message)};
    }
    told(i, result);
    if (!answer) return run;
  }
  return run;
}

}  // namespace tangram::recut

// The first plan of a server that follows its traffic, and the options around it.
//
// At the start nothing has been observed. The services file says what to expect: with --begin the traffic at that time
// of its day, otherwise the busiest minute of it, which is on the safe side and is given back after three quiet
// windows.

#include "cli/following.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/text.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "control/day.h"
#include "lab/replan_comparison.h"
#include "plan/recut_times.h"
#include "recut/checkpoint.h"
#include "sched/slice_memory.h"
#include "serve/gpu_cuts.h"

namespace tangram::cli {
namespace {

control::ControllerOptions controller_options(const FollowingOptions& options) {
  control::ControllerOptions controller;
  controller.interval = from_seconds(options.interval_s);
  return control::at_speed(controller, options.speed);
}

control::FollowOptions follow_options(const FollowingOptions& options) {
  control::FollowOptions follow;
  follow.mode = *control::parse_follow_mode(options.mode);
  follow.guard.watch = from_seconds(options.guard_s / options.speed);
  follow.moves_max = options.moves_per_hour;
  follow.moves_in = from_seconds(to_seconds(follow.moves_in) / options.speed);
  for (const auto& text : options.freezes) follow.freezes.push_back(*control::parse_freeze(text));
  follow.day_at_zero = std::chrono::system_clock::now().time_since_epoch() % std::chrono::hours(24);
  return follow;
}

// How often a standby looks whether the other server has ended.
constexpr std::chrono::milliseconds kStandbyPause{100};
constexpr const char* kSavedName = "following";

std::vector<control::ServiceDemand> first_demand(const FollowingOptions& options, const Workload& workload) {
  const double step = control::ServiceWatch::Options{}.rate_step;
  if (!options.begin_s) return lab::described_peak(workload, step);
  // Until the first window ends, and a minute more for the plan that follows it.
  return lab::described_demand(workload, *options.begin_s, *options.begin_s + options.interval_s + 60, step);
}

// Why a saved plan cannot be gone on with; empty: it can.
std::string why_not(const serve::SavedFollowing& saved, const plan::Problem& problem) {
  const auto& services = problem.workload.services;
  if (!std::ranges::equal(saved.services, services, {}, {}, &Service::name)) return "the services are others";
  for (const auto& device : saved.plan.devices) {
    const DeviceGroup* group = plan::group_of_device(problem.fleet, device);
    const auto number = text::parse_integer(device.name.substr(device.name.rfind('-') + 1));
    if (group == nullptr || group->type != device.type || !number || (group->count && *number >= *group->count)) {
      return fmt::format("the fleet has no {} {}", device.type, device.name);
    }
  }
  const auto deployment = sched::compile(saved.plan, problem.workload, *problem.latency);
  if (!deployment) return deployment.error().message;
  return sched::why_memory_lacks(*deployment).value_or("");
}

// All devices of the fleet; none if one of its groups has no limit.
std::vector<std::string> device_names(const Fleet& fleet) {
  std::vector<std::string> names;
  for (const auto& group : fleet.groups) {
    if (!group.count) return {};
    for (int i = 0; i < *group.count; ++i) {
      names.push_back(fmt::format("{}-{}", group.name.empty() ? group.type : group.name, i));
    }
  }
  return names;
}

// What the run before has left, if it can be used.
std::optional<serve::SavedFollowing> past_of(Following& following, const plan::Problem& problem) {
  if (following.store == nullptr) return std::nullopt;
  const auto text = following.store->read(kSavedName);
  if (text && !*text) return std::nullopt;
  auto saved = text ? serve::parse_saved_following(**text) : Result<serve::SavedFollowing>(text.error());
  following.state_not_used = saved ? why_not(*saved, problem) : saved.error().message;
  if (!following.state_not_used.empty()) return std::nullopt;
  return std::move(*saved);
}

// The plan of the run before. How it was found is not known any more: the next plan is made from nothing and then
// brought near to this one.
Result<control::RunningPlan> went_on(const serve::SavedFollowing& past, control::Replanner& replanner,
                                     const LatencyModel& latency) {
  plan::PlanAnswer answer;
  answer.status = plan::PlanStatus::planned;
  answer.plan = past.plan;
  answer.devices = static_cast<int>(past.plan.devices.size());
  Workload workload;
  workload.services = replanner.services();
  TANGRAM_TRY(auto deployment, sched::compile(past.plan, workload, latency));
  control::RunningPlan running{std::move(deployment), {answer, past.planned}, {}};
  running.step.devices = answer.devices;
  running.step.reasons = {past.last_reason};
  replanner.set_running(std::move(answer));
  return running;
}

Result<control::RunningPlan> plan_first(const FollowingOptions& options, const Workload& workload,
                                        control::Replanner& replanner) {
  auto demand = first_demand(options, workload);
  TANGRAM_TRY(auto first, replanner.plan(demand, std::vector<bool>(demand.size(), false)));
  if (!first) {
    return Error{ErrorCode::invalid,
                 fmt::format("{}: the fleet cannot serve the load: {}", options.fleet, replanner.reason())};
  }
  first->step.reasons = {"the start"};
  return control::RunningPlan{std::move(first->deployment), {{}, std::move(demand)}, std::move(first->step)};
}

}  // namespace

Result<Nothing> check_following_options(const FollowingOptions& options) {
  if (options.standby && options.state.empty()) {
    return Error{ErrorCode::invalid, "--standby needs --state DIR, the folder of the server that it waits for"};
  }
  for (const auto& text : options.freezes) {
    if (control::parse_freeze(text)) continue;
    return Error{ErrorCode::invalid, fmt::format("--freeze {}: expected HH:MM-HH:MM, for example 22:00-06:00", text)};
  }
  if (options.wanted()) return Nothing{};
  const FollowingOptions defaults;
  const bool others = options.mode != defaults.mode || options.speed != defaults.speed || options.begin_s ||
                      options.rule != defaults.rule || options.sharing != defaults.sharing ||
                      options.moves_per_hour != defaults.moves_per_hour || options.standby;
  if (!others) return Nothing{};
  return Error{
      ErrorCode::invalid,
      "--follow-mode, --speed, --begin, --rule, --sharing, --standby and --moves-per-hour need --follow FLEET"};
}

Result<std::optional<control::RecutClock>> emulated_cuts(const FollowingOptions& options) {
  if (options.cuts != "emulated") return std::optional<control::RecutClock>{};
  plan::RecutTimes times;
  if (!options.recut_times.empty()) {
    TANGRAM_TRY(times, load_recut_times(options.recut_times));
  }
  return std::optional(control::RecutClock(plan::at_speed(std::move(times), options.speed),
                                           from_seconds(options.load_s / options.speed)));
}

Result<std::unique_ptr<host::StateStore>> open_state(Session& session, const FollowingOptions& options) {
  if (options.state.empty()) return std::unique_ptr<host::StateStore>();
  const InterruptGuard guard;
  bool told = false;
  while (!guard.interrupted()) {
    TANGRAM_TRY(auto store, host::StateStore::open(options.state));
    if (store) return std::make_unique<host::StateStore>(std::move(*store));
    if (!options.standby) {
      return Error{ErrorCode::unavailable,
                   options.state + ": another server uses this state folder; --standby waits until it has ended"};
    }
    if (!std::exchange(told, true)) session.note("waiting for the server that uses " + options.state);
    std::this_thread::sleep_for(kStandbyPause);
  }
  return Error{ErrorCode::unavailable, "interrupted while waiting for another server"};
}

Result<Following> start_following(const FollowingOptions& options, const Workload& workload,
                                  std::shared_ptr<const LatencyModel> latency,
                                  std::unique_ptr<host::StateStore> store) {
  for (const auto& service : workload.services) {
    if (!std::holds_alternative<ClosedLoopTraffic>(service.traffic)) continue;
    return Error{ErrorCode::invalid,
                 fmt::format("{}: a closed loop has no rate to plan for; --follow needs one", service.name)};
  }
  Following following;
  following.latency = std::move(latency);
  following.store = std::move(store);
  // As short as in `simulate --replan`: a wrong plan is replaced within minutes.
  following.certifier =
      std::make_unique<lab::SimulatedCertifier>(*following.latency, lab::ReplanComparisonOptions{}.certify);
  plan::Problem problem;
  TANGRAM_TRY(const auto fleet, load_fleet(options.fleet));
  problem.fleet = fleet;
  problem.workload = workload;
  problem.latency = following.latency.get();
  problem.options.rule = *plan::parse_rule(options.rule);
  problem.options.sharing = *plan::parse_sharing(options.sharing);
  problem.certifier = following.certifier.get();
  auto past = past_of(following, problem);
  control::Replanner replanner(std::move(problem));
  TANGRAM_TRY(auto first,
              past ? went_on(*past, replanner, *following.latency) : plan_first(options, workload, replanner));
  control::Controller controller(controller_options(options), std::move(replanner), first.standing.planned);
  first.standing = controller.standing();
  following.setup =
      std::make_unique<serve::Follower::Setup>(serve::Follower::Setup{.controller = std::move(controller),
                                                                      .first = std::move(first),
                                                                      .options = follow_options(options),
                                                                      .services = workload.services,
                                                                      .lost_after = from_seconds(options.lost_after_s),
                                                                      .emulated = options.cuts == "emulated",
                                                                      .devices = device_names(fleet),
                                                                      .past = std::move(past)});
  return following;
}

Result<recut::GpuChoices> cut_for_start(const FollowingOptions& options, const serve::Follower::Setup& setup,
                                        recut::GpuChoices choices) {
  TANGRAM_TRY(const auto fleet, load_fleet(options.fleet));
  const Plan first = setup.first.standing.plan ? recut::cuts_of(setup.first.standing.plan->plan) : Plan{};
  // All devices of the fleet, those that the plan does not use without a cut: each keeps its GPU from now on.
  Plan all = first;
  for (const auto& group : fleet.groups) {
    const Geometry* geometry = find_geometry(group.type);
    for (int i = 0; i < group.count.value_or(0) && geometry != nullptr; ++i) {
      std::string name = fmt::format("{}-{}", group.name.empty() ? group.type : group.name, i);
      const bool planned = std::ranges::find(first.devices, name, &PlannedDevice::name) != first.devices.end();
      if (!planned) all.devices.push_back({std::move(name), group.type, *geometry, {}});
    }
  }
  const auto driver = adapters::probe_nvml(recut::nvml_library());
  if (!driver.problem.empty()) return Error{ErrorCode::unavailable, "--cuts nvml: " + driver.problem};
  TANGRAM_TRY(const auto matched, recut::match_devices(all, driver, choices));
  for (const auto& [device, gpu] : matched) choices[device->name] = gpu->uuid;
  // After a restart, slices can be left on devices that the plan does not use: the server was killed before it gave
  // them back. At a first start they are not ours.
  const auto cut = serve::cut_gpus(setup.past ? all : first,
                                   {.choices = choices, .directory = recut::state_directory(""), .after = {}},
                                   "the first plan of tangram serve --follow");
  if (!cut) return Error{cut.error().code, "the GPUs were not cut for the first plan: " + cut.error().message};
  return choices;
}

void keep_state(Following& following, host::LogWriter& log) {
  if (!following.state_not_used.empty()) {
    log.write(host::LogLine(host::LogLevel::warning, "state_not_used").text("reason", following.state_not_used));
  }
  if (following.store == nullptr) return;
  following.setup->save = [store = following.store.get(), &log](const serve::SavedFollowing& saved) {
    const auto written = store->write({{kSavedName, to_text(saved)}});
    if (written) return;
    log.write(host::LogLine(host::LogLevel::error, "state_not_written").text("reason", written.error().message));
  };
}

void add_following_options(Program& program, Arguments& verb, FollowingOptions& options) {
  program.offers_files(
      verb.add_option("--follow", options.fleet,
                      "Follow the traffic: plan for this fleet at the start, plan anew when the traffic changes, and "
                      "move to the new plan while serving. No PLAN is given then.")
          ->type_name("FLEET"));
  program.one_of(
      verb.add_option("--follow-mode", options.mode,
                      "What to do with a new plan: `act` puts it in force, `advise` only reports it in the log and in "
                      "`tangram follow status`, `ask` waits for `tangram follow approve`.")
          ->type_name("M"),
      {"act", "advise", "ask"});
  program.one_of(
      verb.add_option("--cuts", options.cuts,
                      "How devices are cut when the plan changes: `emulated` only waits as long as cutting "
                      "and loading take, for rehearsals with --engine emulated; `nvml` cuts the GPUs of this "
                      "machine, as `tangram apply` does; `none` cuts nothing: slices of host cores are made "
                      "by their workers.")
          ->type_name("C"),
      {"none", "emulated", "nvml"});
  program.offers_files(verb.add_option("--recut-times", options.recut_times,
                                       "Measured times of cutting, for --cuts emulated; built-in medians otherwise.")
                           ->type_name("FILE"));
  const auto number = [&](const char* name, double& value, const char* unit, double min, double max, const char* help) {
    verb.add_option(name, value, help)->type_name(unit)->range(min, max);
  };
  number("--load-s", options.load_s, "S", 0, 3600, "Seconds to load a model, for --cuts emulated.");
  number("--speed", options.speed, "X", 0.01, 3600,
         "Divide all times of the day by X: control intervals, the guard, cutting and loading. Run times and promises "
         "stay. For rehearsals, with the same --speed for `tangram load`.");
  number("--interval", options.interval_s, "S", 1, 86400, "The length of a window of the forecast.");
  number("--guard", options.guard_s, "S", 0, 86400,
         "How long to watch the promises after a move; if a service does worse than before, the old plan comes back.");
  number("--lost-after", options.lost_after_s, "S", 0, 3600,
         "A device of which a slice does not come back within this time is planned around.");
  verb.add_option("--freeze", options.freezes,
                  "A time of every day, HH:MM-HH:MM in UTC, in which nothing moves unless a device is lost. May be "
                  "repeated.")
      ->type_name("TIMES");
  program.offers_files(
      verb.add_option("--state", options.state,
                      "A folder in which the server keeps its plan and counters; after a restart it goes on with them. "
                      "Default: $TANGRAM_STATE, if it is set.")
          ->type_name("DIR"));
  verb.add_flag("--standby", options.standby,
                "Wait until the server that uses the folder of --state has ended, then take its place.");
  verb.add_option("--begin", options.begin_s,
                  "The time of day at which the traffic starts, in seconds: the first plan is for that time. Without "
                  "it, the first plan is for the busiest minute of the services file.")
      ->type_name("S");
  program.whole_number(
      verb.add_option("--moves-per-hour", options.moves_per_hour, "The most moves in an hour; 0: no limit.")
          ->type_name("N"),
      0, 10'000);
  program.one_of(verb.add_option("--rule", options.rule, "As for `tangram plan`.")->type_name("R"),
                 {"certified", "half"});
  program.one_of(verb.add_option("--sharing", options.sharing, "As for `tangram plan`.")->type_name("S"),
                 {"none", "model", "all"});
}

}  // namespace tangram::cli

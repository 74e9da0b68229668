// The first plan of a server that follows its traffic, and the options around it.
//
// At the start nothing has been observed. The services file says what to expect: with --begin the traffic at that time
// of its day, otherwise the busiest minute of it, which is on the safe side and is given back after three quiet
// windows.

#include "cli/following.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "base/text.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "control/day.h"
#include "lab/replan_comparison.h"
#include "plan/compose.h"
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

// `after_s`: seconds of the day since the start.
std::vector<control::ServiceDemand> first_demand(const FollowingOptions& options, const Workload& workload,
                                                 double after_s = 0) {
  const double step = control::ServiceWatch::Options{}.rate_step;
  if (!options.begin_s) return lab::described_peak(workload, step);
  // Until the first window ends, and a minute more for the plan that follows it.
  const double begin_s = *options.begin_s + after_s;
  return lab::described_demand(workload, begin_s, begin_s + options.interval_s + 60, step);
}

// Puts the services of `saved` into the order of the file. False: they are others.
bool sort_services(serve::SavedFollowing& saved, const std::vector<Service>& services) {
  if (saved.services.size() != services.size()) return false;
  serve::SavedFollowing sorted = saved;
  std::vector<std::uint32_t> place_of(services.size());  // By the place in `saved`.
  for (std::uint32_t s = 0; s < services.size(); ++s) {
    const auto found = std::ranges::find(saved.services, services[s].name);
    if (found == saved.services.end()) return false;
    const auto from = static_cast<std::size_t>(found - saved.services.begin());
    place_of[from] = s;
    sorted.services[s] = saved.services[from];
    sorted.planned[s] = saved.planned[from];
    sorted.watches[s] = saved.watches[from];
    if (saved.previous) sorted.previous->planned[s] = saved.previous->planned[from];
  }
  for (auto& correction : sorted.corrections) correction.service = ServiceId(place_of[correction.service.index()]);
  saved = std::move(sorted);
  return true;
}

// Why a saved plan cannot be gone on with; empty: it can.
std::string why_not(const Plan& plan, const plan::Problem& problem) {
  for (const auto& device : plan.devices) {
    const DeviceGroup* group = plan::group_of_device(problem.fleet, device);
    if (group == nullptr || !device_number(*group, device.name)) {
      return fmt::format("the fleet has no {} {}", device.type, device.name);
    }
  }
  const auto deployment = sched::compile(plan, problem.workload, *problem.latency);
  if (!deployment) return deployment.error().message;
  return sched::why_memory_lacks(*deployment).value_or("");
}

// What the run before has left, if it can be used.
std::optional<serve::SavedFollowing> past_of(Following& following, const plan::Problem& problem) {
  if (following.store == nullptr) return std::nullopt;
  const auto text = following.store->read(kSavedName);
  if (text && !*text) return std::nullopt;
  auto saved = text ? serve::parse_saved_following(**text) : Result<serve::SavedFollowing>(text.error());
  if (!saved) {
    following.state_not_used = saved.error().message;
  } else if (!sort_services(*saved, problem.workload.services)) {
    following.state_not_used = "the services are others";
  } else {
    following.state_not_used = why_not(saved->plan, problem);
  }
  if (!following.state_not_used.empty()) return std::nullopt;
  // There is no way back to a plan that does not fit any more; the running one does.
  if (saved->previous && !why_not(saved->previous->plan, problem).empty()) saved->previous.reset();
  return std::move(*saved);
}

// A plan of the run before. How it was found is not known any more: the next plan is made from nothing and then brought
// near to this one.
Result<control::RunningPlan> known_plan(const serve::SavedPlan& saved, const Workload& workload,
                                        const LatencyModel& latency) {
  plan::PlanAnswer answer;
  answer.status = plan::PlanStatus::planned;
  answer.plan = saved.plan;
  answer.devices = static_cast<int>(saved.plan.devices.size());
  TANGRAM_TRY(auto deployment, sched::compile(saved.plan, workload, latency));
  // All of it is there: nothing is loaded or cut to get there.
  auto running = control::make_running_plan(std::move(deployment), {answer, saved.planned},
                                            control::step_between(saved.plan, saved.plan));
  running.step.reasons = {saved.reason};
  return running;
}

// All devices of the fleet, without a cut.
Plan devices_of(const Fleet& fleet) {
  Plan all;
  for (const auto& group : fleet.groups) {
    const Geometry* geometry = find_geometry(group.type);
    for (int i = 0; i < group.count.value_or(0) && geometry != nullptr; ++i) {
      all.devices.push_back({device_name(group, i), group.type, *geometry, {}});
      plan::add_reserved(group, all.devices.back());
    }
  }
  return all;
}

Result<adapters::DriverReport> driver_report() {
  auto driver = adapters::probe_nvml(recut::nvml_library());
  if (!driver.problem.empty()) return Error{ErrorCode::unavailable, "--cuts nvml: " + driver.problem};
  return driver;
}

std::set<std::string> names_of(const recut::GpuChoices& choices) {
  std::set<std::string> names;
  for (const auto& [name, choice] : choices) names.insert(name);
  return names;
}

// The plan of the run before, or one that differs little from it where it uses a device that does not answer now.
// Nothing: the fleet cannot carry what was planned for without that device.
Result<std::optional<control::RunningPlan>> go_on(const serve::SavedFollowing& past, const Workload& workload,
                                                  const LatencyModel& latency, control::Replanner& replanner) {
  TANGRAM_TRY(auto known, known_plan({past.plan, past.planned, past.last_reason}, workload, latency));
  replanner.set_running(known.standing->plan);
  std::vector<std::string> reasons;
  for (const auto& device : replanner.lost()) {
    if (replanner.uses(device)) reasons.push_back("lost " + device);
  }
  if (reasons.empty()) return std::optional(std::move(known));
  TANGRAM_TRY(auto made, replanner.plan(past.planned, std::vector<bool>(past.planned.size(), false)));
  if (!made) return std::optional<control::RunningPlan>{};
  made->step.reasons = std::move(reasons);
  return std::optional(
      control::make_running_plan(std::move(made->deployment), {{}, past.planned}, std::move(made->step)));
}

// Nothing: the fleet cannot carry what is expected.
Result<std::optional<control::RunningPlan>> plan_first(const FollowingOptions& options, const Workload& workload,
                                                       control::Replanner& replanner) {
  auto demand = first_demand(options, workload);
  TANGRAM_TRY(auto first, replanner.plan(demand, std::vector<bool>(demand.size(), false)));
  if (!first) return std::optional<control::RunningPlan>{};
  first->step.reasons = {"the start"};
  return std::optional(
      control::make_running_plan(std::move(first->deployment), {{}, std::move(demand)}, std::move(first->step)));
}

}  // namespace

Result<Nothing> check_traffic(const Workload& workload) {
  for (const auto& service : workload.services) {
    if (!std::holds_alternative<ClosedLoopTraffic>(service.traffic)) continue;
    return Error{ErrorCode::invalid,
                 fmt::format("{}: a closed loop has no rate to plan for; --follow needs one", service.name)};
  }
  return Nothing{};
}

Result<Nothing> check_following_options(const FollowingOptions& options) {
  if (options.standby && options.state.empty()) {
    return Error{ErrorCode::invalid, "--standby needs --state DIR, the folder of the server that it waits for"};
  }
  for (const auto& text : options.freezes) {
    if (control::parse_freeze(text)) continue;
    return Error{ErrorCode::invalid, fmt::format("--freeze {}: expected HH:MM-HH:MM, for example 22:00-06:00", text)};
  }
  return Nothing{};
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
  TANGRAM_RETURN_IF_ERROR(check_traffic(workload));
  Following following;
  following.latency = std::move(latency);
  following.store = std::move(store);
  // As short as in `simulate --replan`: a wrong plan is replaced within minutes.
  following.certifier =
      std::make_unique<lab::SimulatedCertifier>(*following.latency, lab::ReplanComparisonOptions{}.certify);
  plan::Problem problem;
  TANGRAM_TRY(const auto fleet, load_fleet(options.fleet));
  if (options.cuts == "nvml") {
    TANGRAM_TRY(const auto driver, driver_report());
    following.unreachable = recut::unreachable_devices(devices_of(fleet), driver, options.gpus);
  }
  problem.fleet = fleet;
  problem.workload = workload;
  problem.latency = following.latency.get();
  problem.options.objective = *plan::parse_objective(options.objective);
  problem.options.rule = *plan::parse_rule(options.rule);
  problem.options.sharing = *plan::parse_sharing(options.sharing);
  problem.certifier = following.certifier.get();
  auto past = past_of(following, problem);
  control::Replanner replanner(std::move(problem));
  std::optional<control::RunningPlan> first;
  std::optional<control::RunningPlan> previous;
  replanner.set_lost(names_of(following.unreachable));
  if (past) {
    TANGRAM_TRY(first, go_on(*past, workload, *following.latency, replanner));
    if (past->previous) {
      TANGRAM_TRY(previous, known_plan(*past->previous, workload, *following.latency));
    }
  } else {
    TANGRAM_TRY(first, plan_first(options, workload, replanner));
  }
  if (!first) {
    following.infeasible = fmt::format("{}: the fleet cannot serve the load: {}", options.fleet, replanner.reason());
    return following;
  }
  control::Controller controller(controller_options(options), std::move(replanner), first->standing->planned);
  for (std::size_t s = 0; past && s < past->watches.size(); ++s) controller.recall(s, past->watches[s]);
  first->standing = std::make_shared<const control::Standing>(controller.standing());
  following.setup =
      std::make_unique<serve::Follower::Setup>(serve::Follower::Setup{.controller = std::move(controller),
                                                                      .first = std::move(*first),
                                                                      .options = follow_options(options),
                                                                      .services = workload.services,
                                                                      .lost_after = from_seconds(options.lost_after_s),
                                                                      .emulated = options.cuts == "emulated",
                                                                      .fleet = fleet,
                                                                      .past = std::move(past),
                                                                      .previous = std::move(previous)});
  following.setup->describe = [options, begun = std::chrono::steady_clock::now()](const Workload& described) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
    return first_demand(options, described, passed.count() * options.speed);
  };
  return following;
}

Result<recut::GpuChoices> cut_for_start(const FollowingOptions& options, const Following& following) {
  const serve::Follower::Setup& setup = *following.setup;
  const Plan first = setup.first.standing->plan ? recut::cuts_of(setup.first.standing->plan->plan) : Plan{};
  // All devices of the fleet, those that the plan does not use without a cut: each keeps its GPU from now on.
  Plan all = first;
  for (auto& device : devices_of(setup.fleet).devices) {
    const bool planned = std::ranges::find(first.devices, device.name, &PlannedDevice::name) != first.devices.end();
    if (!planned && !following.unreachable.contains(device.name)) all.devices.push_back(std::move(device));
  }
  recut::GpuChoices choices = options.gpus;
  for (const auto& [name, gpu] : following.unreachable) choices.erase(name);
  TANGRAM_TRY(const auto driver, driver_report());
  TANGRAM_TRY(const auto matched, recut::match_devices(all, driver, choices));
  for (const auto& [device, gpu] : matched) choices[device->name] = gpu->uuid;
  // After a restart, slices can be left on devices that the plan does not use: the server was killed before it gave
  // them back. At a first start they are not ours.
  const auto cut = serve::cut_gpus(setup.past ? all : first,
                                   {.choices = choices, .directory = recut::state_directory(""), .after = {}},
                                   "the first plan of tangram serve --follow");
  if (!cut) return Error{cut.error().code, "the GPUs were not cut for the first plan: " + cut.error().message};
  // They are watched, too: the watch says that they are lost, and when they are back.
  choices.insert(following.unreachable.begin(), following.unreachable.end());
  return choices;
}

void keep_state(Following& following, host::LogWriter& log) {
  if (!following.state_not_used.empty()) {
    log.write(host::LogLine(host::LogLevel::warning, "state_not_used").text("reason", following.state_not_used));
  }
  if (following.store == nullptr) return;
  following.setup->save = [store = following.store.get(), &log,
                           told = std::string()](const serve::SavedFollowing& saved) mutable {
    auto written = store->write({{kSavedName, to_text(saved)}});
    const std::string problem = written ? "" : written.error().message;
    // Every look writes; the log has each problem once.
    if (!problem.empty() && told != problem) {
      log.write(host::LogLine(host::LogLevel::error, "state_not_written").text("reason", problem));
    }
    told = problem;
    return written;
  };
}

void add_following_options(Program& program, Arguments& verb, FollowingOptions& options) {
  Argument* const follow =
      verb.add_option("--follow", options.fleet,
                      "Follow the traffic: plan for this fleet at the start, plan anew when the traffic changes, and "
                      "move to the new plan while serving. No PLAN is given then.")
          ->type_name("FLEET");
  program.offers_files(follow);
  program.one_of(
      verb.add_option("--follow-mode", options.mode,
                      "What to do with a new plan: `act` puts it in force, `advise` only reports it in the log and in "
                      "`tangram follow status`, `ask` waits for `tangram follow approve`.")
          ->type_name("M")
          ->needs(follow),
      {"act", "advise", "ask"});
  program.one_of(
      verb.add_option("--cuts", options.cuts,
                      "How devices are cut when the plan changes: `emulated` only waits as long as cutting "
                      "and loading take, for rehearsals with --engine emulated; `nvml` cuts the GPUs of this "
                      "machine, as `tangram apply` does; `none` cuts nothing: slices of host cores are made "
                      "by their workers.")
          ->type_name("C")
          ->needs(follow),
      {"none", "emulated", "nvml"});
  program.offers_files(verb.add_option("--recut-times", options.recut_times,
                                       "Measured times of cutting, for --cuts emulated; built-in medians otherwise.")
                           ->type_name("FILE")
                           ->needs(follow));
  const auto number = [&](const char* name, double& value, const char* unit, double min, double max, const char* help) {
    verb.add_option(name, value, help)->type_name(unit)->range(min, max)->needs(follow);
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
      ->type_name("TIMES")
      ->needs(follow);
  program.offers_files(
      verb.add_option("--state", options.state,
                      "A folder in which the server keeps its plan and counters; after a restart it goes on with them. "
                      "Default: $TANGRAM_STATE, if it is set.")
          ->type_name("DIR")
          ->needs(follow));
  verb.add_flag("--standby", options.standby,
                "Wait until the server that uses the folder of --state has ended, then take its place.")
      ->needs(follow);
  verb.add_option("--begin", options.begin_s,
                  "The time of day at which the traffic starts, in seconds: the first plan is for that time. Without "
                  "it, the first plan is for the busiest minute of the services file.")
      ->type_name("S")
      ->range(0.0, 1e9)
      ->needs(follow);
  program.whole_number(
      verb.add_option("--moves-per-hour", options.moves_per_hour, "The most moves in an hour; 0: no limit.")
          ->type_name("N")
          ->needs(follow),
      0, 10'000);
  program.one_of(
      verb.add_option("--objective", options.objective,
                      "What plans aim at: the fewest devices, or the lowest price by the `price_per_hour` of "
                      "the fleet.")
          ->type_name("O")
          ->needs(follow),
      {"devices", "price"});
  program.one_of(verb.add_option("--rule", options.rule, "As for `tangram plan`.")->type_name("R")->needs(follow),
                 {"certified", "half"});
  program.one_of(verb.add_option("--sharing", options.sharing, "As for `tangram plan`.")->type_name("S")->needs(follow),
                 {"none", "model", "all"});
}

}  // namespace tangram::cli

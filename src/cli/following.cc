// The first plan of a server that follows its traffic, and the options around it.
//
// At the start nothing has been observed. The services file says what to expect: with --begin the traffic at that time
// of its day, otherwise the busiest minute of it, which is on the safe side and is given back after three quiet windows.

#include "cli/following.h"

#include <fmt/format.h>

#include "cli/inputs.h"
#include "control/day.h"
#include "lab/replan_comparison.h"
#include "plan/recut_times.h"

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
  return follow;
}

std::vector<control::ServiceDemand> first_demand(const FollowingOptions& options, const Workload& workload) {
  const double step = control::ServiceWatch::Options{}.rate_step;
  if (!options.begin_s) return lab::described_peak(workload, step);
  // Until the first window ends, and a minute more for the plan that follows it.
  return lab::described_demand(workload, *options.begin_s, *options.begin_s + options.interval_s + 60, step);
}

}  // namespace

Result<Nothing> check_following_options(const FollowingOptions& options) {
  if (options.wanted()) return Nothing{};
  const FollowingOptions defaults;
  const bool others = options.mode != defaults.mode || options.speed != defaults.speed || options.begin_s ||
                      options.rule != defaults.rule || options.sharing != defaults.sharing ||
                      options.moves_per_hour != defaults.moves_per_hour;
  if (!others) return Nothing{};
  return Error{ErrorCode::invalid,
               "--follow-mode, --speed, --begin, --rule, --sharing and --moves-per-hour need --follow FLEET"};
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

Result<Following> start_following(const FollowingOptions& options, const Workload& workload,
                                  std::shared_ptr<const LatencyModel> latency) {
  for (const auto& service : workload.services) {
    if (!std::holds_alternative<ClosedLoopTraffic>(service.traffic)) continue;
    return Error{ErrorCode::invalid,
                 fmt::format("{}: a closed loop has no rate to plan for; --follow needs one", service.name)};
  }
  Following following;
  following.latency = std::move(latency);
  // As short as in `simulate --replan`: a wrong plan is replaced within minutes.
  following.certifier =
      std::make_unique<lab::SimulatedCertifier>(*following.latency, lab::ReplanComparisonOptions{}.certify);
  plan::Problem problem;
  TANGRAM_TRY(problem.fleet, load_fleet(options.fleet));
  problem.workload = workload;
  problem.latency = following.latency.get();
  problem.options.rule = *plan::parse_rule(options.rule);
  problem.options.sharing = *plan::parse_sharing(options.sharing);
  problem.certifier = following.certifier.get();
  control::Replanner replanner(std::move(problem));
  auto demand = first_demand(options, workload);
  TANGRAM_TRY(auto first, replanner.plan(demand, std::vector<bool>(demand.size(), false)));
  if (!first) {
    return Error{ErrorCode::invalid, fmt::format("{}: the fleet cannot serve the load: {}", options.fleet,
                                                 replanner.reason())};
  }
  first->step.reasons = {"the start"};
  control::Controller controller(controller_options(options), std::move(replanner), std::move(demand));
  control::RunningPlan running{std::move(first->deployment), controller.standing(), std::move(first->step)};
  following.setup = std::make_unique<serve::Follower::Setup>(serve::Follower::Setup{
      std::move(controller), std::move(running), follow_options(options), workload.services});
  return following;
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
  program.one_of(verb.add_option("--cuts", options.cuts,
                                 "How devices are cut when the plan changes: `emulated` only waits as long as cutting "
                                 "and loading take, for rehearsals with --engine emulated; `none` cuts nothing: slices "
                                 "of host cores are made by their workers, and GPUs are cut by `tangram apply`.")
                     ->type_name("C"),
                 {"none", "emulated"});
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

// Three runs over the same requests: a controller that replans from what it observes, a static plan for the peak, and
// an oracle that plans for the true rates.
//
// The static run is what an operator without a controller must provide; the oracle knows what a controller can only
// estimate. The difference between the two is the possible gain in GPU-hours, and the controller is judged by how much
// of it it gets without losing more requests. All three plan with the same planner and the same kind of certifier, so
// that only their knowledge differs.
//
// "True" rates are those of the traffic description, without chance, as means over a minute of the day.

#include "lab/replan_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "control/day.h"
#include "control/fleet_use.h"
#include "control/recut_clock.h"
#include "core/day.h"
#include "plan/demand.h"
#include "plan/recut_times.h"
#include "sched/deployment.h"

namespace tangram::lab {
namespace {

using control::Replanner;
using control::ServiceDemand;
using control::SizeCounts;

// ---- The truth about traffic ----

// The mean rate of a curve within [begin_s, end_s). The curve is a step function that repeats after its last step.
double curve_mean(const CurveTraffic& curve, double begin_s, double end_s) {
  const auto count = curve.rate_per_s.size();
  if (count == 0 || end_s <= begin_s) return 0;
  double sum = 0;
  for (double at = begin_s; at < end_s - 1e-9;) {
    // The tolerance keeps a bound that lies on a step, up to rounding, from producing an empty piece and an endless
    // loop.
    const auto step = static_cast<std::size_t>(std::floor(at / curve.step_s + 1e-9));
    const double until = std::min(end_s, static_cast<double>(step + 1) * curve.step_s);
    sum += curve.rate_per_s[step % count] * (until - at);
    at = until;
  }
  return curve.scale * sum / (end_s - begin_s);
}

// The rate of a day at one instant. Spans are short beside the period, so the rate in the middle serves as the mean.
double diurnal_at(const DiurnalTraffic& day, double at_s) {
  return day.rate_per_s * (1 + day.amplitude * std::cos(2 * math::kPi * (at_s - day.peak_at_s) / day.period_s));
}

// Requests of the trace in the span, counted; entries are in order of time. A replay at twice the speed covers twice
// the span of the recording.
double trace_mean(const TraceTraffic& replay, double begin_s, double end_s) {
  const auto at = [&](double s) { return kTimeZero + from_seconds(s * replay.speed); };
  const auto first = std::ranges::lower_bound(replay.trace, at(begin_s), {}, &TraceEntry::at);
  const auto last = std::ranges::lower_bound(replay.trace, at(end_s), {}, &TraceEntry::at);
  return static_cast<double>(last - first) / (end_s - begin_s);
}

// Poisson, constant and bursty traffic have one mean for all time.
double mean_rate(const Service& service, double begin_s, double end_s) {
  if (const auto* curve = std::get_if<CurveTraffic>(&service.traffic)) return curve_mean(*curve, begin_s, end_s);
  if (const auto* day = std::get_if<DiurnalTraffic>(&service.traffic)) {
    return diurnal_at(*day, (begin_s + end_s) / 2);
  }
  if (const auto* replay = std::get_if<TraceTraffic>(&service.traffic)) return trace_mean(*replay, begin_s, end_s);
  return mean_rate_per_s(service.traffic);
}

// How long it takes until the traffic has shown all of its rates.
double period_s(const Traffic& traffic) {
  if (const auto* curve = std::get_if<CurveTraffic>(&traffic)) {
    return curve->step_s * static_cast<double>(curve->rate_per_s.size());
  }
  if (const auto* day = std::get_if<DiurnalTraffic>(&traffic)) return day->period_s;
  const auto* replay = std::get_if<TraceTraffic>(&traffic);
  if (replay == nullptr || replay->trace.empty()) return 0;
  return to_seconds(replay->trace.back().at - kTimeZero) / replay->speed + 1;
}

// The mix of sizes at an instant: while sizes drift, a mixture of the first and the last distribution.
SizeCounts true_mix(const Service& service, double at_s) {
  Service part = service;
  // size_shares() must answer for the first distribution alone.
  part.size_drift.reset();
  const double later = service.size_drift ? service.size_drift->share_at(at_s) : 0;
  SizeCounts mix;
  for (const auto& [size, share] : plan::size_shares(part)) mix[size] += (1 - later) * share;
  if (later > 0) {
    part.input_size = service.size_drift->to;
    for (const auto& [size, share] : plan::size_shares(part)) mix[size] += later * share;
  }
  std::erase_if(mix, [](const auto& entry) { return entry.second <= 0; });
  return mix;
}

// ---- The runs ----

// Holds what the three runs have in common. The scenario, the fleet and the options outlive it.
class Comparison {
 public:
  Comparison(const Scenario& scenario, const Fleet& fleet, const ReplanComparisonOptions& options)
      : scenario_(scenario), fleet_(fleet), options_(options), duration_s_(to_seconds(scenario.config.duration)) {}

  Result<ReplanComparison> run() {
    ReplanComparison comparison;
    comparison.duration_s = duration_s_;
    comparison.objective = options_.objective;
    // The plan for the peak comes first: a fleet that is too small is then refused at once, before a day is simulated.
    TANGRAM_TRY(auto fixed, run_static());
    TANGRAM_TRY(auto replanned, run_replan());
    TANGRAM_TRY(auto oracle, run_oracle());
    comparison.runs = {std::move(replanned), std::move(fixed), std::move(oracle)};
    const double window = to_seconds(options_.controller.interval);
    for (const auto& service : services()) {
      auto& rates = comparison.rates_per_s.emplace_back();
      for (double at = 0; at < duration_s_; at += window) {
        rates.push_back(scale() * mean_rate(service, at, std::min(at + window, duration_s_)));
      }
    }
    return comparison;
  }

 private:
  const std::vector<Service>& services() const { return scenario_.workload.services; }
  double scale() const { return scenario_.config.rate_scale; }

  // The true demand of each service within a span of time: its busiest minute, and the mix of sizes at the end of the
  // span, where a drift has gone furthest. Rates are rounded up in the same steps as the controller's, so that the
  // oracle does not replan for changes that the controller would ignore.
  std::vector<ServiceDemand> truth(double begin_s, double end_s) const {
    std::vector<ServiceDemand> demand;
    for (const auto& service : services()) {
      const double rate = scale() * busiest_rate_per_s(service, begin_s * scale_of_trace(service),
                                                       end_s * scale_of_trace(service), to_seconds(options_.minute));
      demand.push_back({control::rounded_up(rate, options_.controller.watch.rate_step), true_mix(service, end_s)});
    }
    return demand;
  }

  // The simulator scales a trace by replaying it faster, so a span of the run covers a longer span of the trace. Other
  // traffic is scaled in its rate alone.
  double scale_of_trace(const Service& service) const {
    return std::holds_alternative<TraceTraffic>(service.traffic) ? scale() : 1;
  }

  // The demand that the static plan must carry: the busiest minute of the scenario with the longer of the first and the
  // last mix of sizes. A drift is monotonic, so one of its ends is the worst.
  std::vector<ServiceDemand> peak() const {
    std::vector<ServiceDemand> demand = truth(0, duration_s_);
    for (std::size_t s = 0; s < demand.size(); ++s) {
      SizeCounts at_first = true_mix(services()[s], 0);
      if (control::mean_size(at_first) > control::mean_size(demand[s].mix)) demand[s].mix = std::move(at_first);
    }
    return demand;
  }

  // How far ahead the first plan and the oracle look: one interval, until they can decide again, and the lead.
  double first_window_s() const {
    return std::min(duration_s_, to_seconds(options_.controller.interval) + to_seconds(options_.oracle_lead));
  }

  // Each run has a certifier of its own, so that no run profits from what another has simulated.
  // Run times spread as they will in the scenario.
  SimulatedCertifier certifier_for_run() const {
    CertifyOptions certify = options_.certify;
    certify.noise = scenario_.config.noise.spread;
    return {*scenario_.latency, std::move(certify)};
  }

  Replanner replanner_with(plan::Certifier& certifier) const {
    plan::Problem problem;
    problem.fleet = fleet_;
    problem.workload = scenario_.workload;
    problem.latency = scenario_.latency.get();
    problem.options.rule = options_.rule;
    problem.options.sharing = options_.sharing;
    problem.options.objective = options_.objective;
    problem.certifier = &certifier;
    return Replanner(std::move(problem));
  }

  static Error refused(const Replanner& replanner) {
    return {ErrorCode::invalid, "the fleet cannot serve the load: " + replanner.reason()};
  }

  // For each service: its mix of sizes has not changed.
  std::vector<bool> nobody() const { return std::vector<bool>(services().size(), false); }

  // The plan at time 0. Errors: the fleet cannot carry `demand`.
  Result<control::NewPlan> first_plan(Replanner& replanner, const std::vector<ServiceDemand>& demand) const {
    TANGRAM_TRY(auto made, replanner.plan(demand, nobody()));
    if (!made) return refused(replanner);
    made->step.reasons = {"the start"};
    return std::move(*made);
  }

  Result<ReplanRun> run_static() {
    auto certifier = certifier_for_run();
    Replanner replanner = replanner_with(certifier);
    TANGRAM_TRY(auto first, first_plan(replanner, peak()));
    // No decision function: the plan never changes.
    return simulate("static", first, {}, options_.controller.interval);
  }

  // What a run decides after an observation: the plan to put in force, or nullopt to keep the present one.
  using Decide = std::function<std::optional<control::NewPlan>(const control::Observation&)>;

  // The controller follows what it observes. Its first plan is made for the true demand, like that of the oracle: at
  // time 0 there is nothing to observe, and a bad guess would be charged to the method.
  Result<ReplanRun> run_replan() {
    auto certifier = certifier_for_run();
    Replanner replanner = replanner_with(certifier);
    auto demand = truth(0, first_window_s());
    TANGRAM_TRY(auto first, first_plan(replanner, demand));
    control::Controller controller(options_.controller, std::move(replanner), std::move(demand));
    auto run = simulate(
        "replan", first, [&](const control::Observation& seen) { return controller.observe(seen); },
        controller.observe_interval());
    if (run) run->plans_refused = controller.plans_refused();
    return run;
  }

  // The oracle plans for the true rates of the next window, a little ahead.
  Result<ReplanRun> run_oracle() {
    auto certifier = certifier_for_run();
    Replanner replanner = replanner_with(certifier);
    auto planned = truth(0, first_window_s());
    TANGRAM_TRY(auto first, first_plan(replanner, planned));
    int refused = 0;
    auto run = simulate(
        "oracle", first, [&](const control::Observation& seen) { return foresee(seen, replanner, planned, refused); },
        options_.controller.interval);
    if (run) run->plans_refused = refused;
    return run;
  }

  // Plans for the true demand after `seen`, unless `planned` covers it already. Counts in `refused` how often the fleet
  // cannot carry the demand.
  std::optional<control::NewPlan> foresee(const control::Observation& seen, Replanner& replanner,
                                          std::vector<ServiceDemand>& planned, int& refused) const {
    // The last plan is not fully in force yet.
    if (seen.moving) return std::nullopt;
    const double at = to_seconds(seen.at);
    auto demand = truth(at, std::max(at + 1, std::min(duration_s_, at + first_window_s())));
    std::vector<bool> remixed = nobody();
    bool same = true;
    for (std::size_t s = 0; s < demand.size(); ++s) {
      remixed[s] = control::mix_distance(demand[s].mix, planned[s].mix) > options_.oracle_mix_drift;
      // A small drift is ignored: the mix that is planned for stays.
      if (!remixed[s]) demand[s].mix = planned[s].mix;
      same = same && !remixed[s] && demand[s].rate_per_s == planned[s].rate_per_s;
    }
    if (same) return std::nullopt;
    auto made = replanner.plan(demand, remixed);
    // The plan in force stays. `planned` stays too, so the next window tries again.
    if (!made || !*made) {
      ++refused;
      return std::nullopt;
    }
    planned = std::move(demand);
    (*made)->step.reasons = {"the expected rates"};
    return std::move(*made);
  }

  // Simulates the scenario from the plan `first` on, asking `decide` every `every`, and fills in the figures of the
  // run.
  Result<ReplanRun> simulate(const std::string& name, control::NewPlan& first, const Decide& decide, Duration every) {
    ReplanRun run;
    run.name = name;
    run.steps.push_back(first.step);
    sim::SimulationConfig config = scenario_.config;
    config.plan_changes.clear();
    config.timeline_steps = windows();
    control::RecutClock recuts(options_.recut, options_.load);
    config.reshape_time = [&recuts](const sched::DeployedDevice& before, const Layout& target, TimePoint now) {
      return recuts.time_of(before.layout, target, now);
    };
    if (decide) {
      config.controller.interval = every;
      config.controller.decide = [&](const control::Observation& seen) -> std::optional<sched::Deployment> {
        if (to_seconds(seen.at) >= duration_s_) return std::nullopt;  // Nothing more comes.
        auto made = decide(seen);
        if (!made) return std::nullopt;
        recuts.begin_move(seen.at);
        made->step.at = seen.at;
        run.steps.push_back(made->step);
        return std::move(made->deployment);
      };
    }
    if (options_.progress) {
      config.progress = [&](double share) { return options_.progress(name, share); };
    }
    run.result = sim::simulate(first.deployment, scenario_.workload, config);
    if (run.result.stopped) return Error{ErrorCode::invalid, "stopped"};
    account(run);
    return run;
  }

  // Windows of the time line. The tolerance keeps 24 h / 1 h from becoming 25 through rounding.
  std::size_t windows() const {
    return static_cast<std::size_t>(std::ceil(duration_s_ / to_seconds(options_.controller.interval) - 1e-9));
  }

  // GPU-hours and slice-hours count up to the end of the scenario, so that all runs are charged for the same time.
  void account(ReplanRun& run) const {
    const TimePoint end = kTimeZero + from_seconds(duration_s_);
    control::FleetHours hours;
    for (const auto& use : run.result.fleet_use) {
      run.devices_max = std::max(run.devices_max, static_cast<int>(use.devices));
      if (use.at <= end) hours.note(use);
    }
    const control::FleetCost cost = control::cost_of(fleet_, hours, end);
    run.gpu_hours = cost.device_hours;
    run.slice_hours = hours.slice_hours(end);
    run.cost = cost.cost;
    // The first plan is loaded before the run begins.
    for (std::size_t i = 1; i < run.steps.size(); ++i) run.replicas_loaded += run.steps[i].replicas_loaded;
    // Warm-up requests are resolved and not counted, so they are added before the comparison.
    const auto total = run.result.metrics.total();
    run.unresolved = run.result.requests - std::min(run.result.requests, total.resolved() + warmup(run));
    TANGRAM_CHECK(total.arrived == total.resolved(), "every request is resolved once");
  }

  std::uint64_t warmup(const ReplanRun& run) const {
    return std::min(run.result.requests, scenario_.config.warmup_requests);
  }

  const Scenario& scenario_;
  const Fleet& fleet_;
  const ReplanComparisonOptions& options_;
  double duration_s_;
};

}  // namespace

double busiest_rate_per_s(const Service& service, double begin_s, double end_s, double minute_s) {
  // Minutes count from begin_s, and the last one may be shorter. Cost: one mean for each minute, 1,440 for a day.
  double most = 0;
  for (double at = begin_s; at < end_s - 1e-9; at += minute_s) {
    most = std::max(most, mean_rate(service, at, std::min(at + minute_s, end_s)));
  }
  return most;
}

std::vector<control::ServiceDemand> described_demand(const Workload& workload, double begin_s, double end_s,
                                                     double rate_step) {
  std::vector<ServiceDemand> demand;
  for (const auto& service : workload.services) {
    const double rate = busiest_rate_per_s(service, begin_s, end_s);
    demand.push_back({control::rounded_up(rate, rate_step), true_mix(service, end_s)});
  }
  return demand;
}

std::vector<control::ServiceDemand> described_peak(const Workload& workload, double rate_step) {
  std::vector<ServiceDemand> demand;
  for (const auto& service : workload.services) {
    Workload one;
    one.services = {service};
    demand.push_back(described_demand(one, 0, std::max(60.0, period_s(service.traffic)), rate_step).front());
  }
  return demand;
}

ReplanComparisonOptions at_speed(ReplanComparisonOptions options, double speed) {
  const auto faster = [speed](Duration time) { return from_seconds(to_seconds(time) / speed); };
  options.controller = control::at_speed(options.controller, speed);
  options.recut = plan::at_speed(std::move(options.recut), speed);
  options.load = faster(options.load);
  options.oracle_lead = faster(options.oracle_lead);
  options.minute = faster(options.minute);
  return options;
}

Scenario at_speed(Scenario scenario, double speed) {
  scenario.workload = tangram::at_speed(std::move(scenario.workload), speed);
  auto& config = scenario.config;
  if (config.duration != Duration::max()) config.duration = from_seconds(to_seconds(config.duration) / speed);
  config.faults.slice_lost_mean_s /= speed;
  return scenario;
}

Result<ReplanComparison> compare_replanning(const Scenario& scenario, const Fleet& fleet,
                                            const ReplanComparisonOptions& options) {
  if (scenario.config.duration == Duration::max()) {
    return Error{ErrorCode::invalid,
                 "--replan needs duration_s: add it to the scenario, for example duration_s: 86400"};
  }
  for (const auto& service : scenario.workload.services) {
    // The rate of a closed loop follows from how fast it is answered, so no plan can be made for it in advance.
    if (!std::holds_alternative<ClosedLoopTraffic>(service.traffic)) continue;
    return Error{ErrorCode::invalid, fmt::format("{}: a closed loop has no rate to plan for", service.name)};
  }
  return Comparison(scenario, fleet, options).run();
}

}  // namespace tangram::lab

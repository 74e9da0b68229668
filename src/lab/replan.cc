#include "lab/replan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "plan/demand.h"
#include "sched/deployment.h"

namespace tangram::lab {
namespace {

using control::Replanner;
using control::ServiceDemand;
using control::SizeCounts;

constexpr double kMinute = 60;

// ---- The truth about traffic ----

double curve_mean(const CurveTraffic& curve, double begin_s, double end_s) {
  const auto count = curve.rate_per_s.size();
  if (count == 0 || end_s <= begin_s) return 0;
  double sum = 0;
  for (double at = begin_s; at < end_s - 1e-9;) {
    const auto step = static_cast<std::size_t>(std::floor(at / curve.step_s + 1e-9));
    const double until = std::min(end_s, static_cast<double>(step + 1) * curve.step_s);
    sum += curve.rate_per_s[step % count] * (until - at);
    at = until;
  }
  return curve.scale * sum / (end_s - begin_s);
}

double diurnal_at(const DiurnalTraffic& day, double at_s) {
  return day.rate_per_s * (1 + day.amplitude * std::cos(2 * math::kPi * (at_s - day.peak_at_s) / day.period_s));
}

double trace_mean(const TraceTraffic& replay, double begin_s, double end_s) {
  const auto at = [&](double s) { return kTimeZero + from_seconds(s * replay.speed); };
  const auto first = std::ranges::lower_bound(replay.trace, at(begin_s), {}, &TraceEntry::at);
  const auto last = std::ranges::lower_bound(replay.trace, at(end_s), {}, &TraceEntry::at);
  return static_cast<double>(last - first) / (end_s - begin_s);
}

double mean_rate(const Service& service, double begin_s, double end_s) {
  if (const auto* curve = std::get_if<CurveTraffic>(&service.traffic)) return curve_mean(*curve, begin_s, end_s);
  if (const auto* day = std::get_if<DiurnalTraffic>(&service.traffic)) {
    return diurnal_at(*day, (begin_s + end_s) / 2);
  }
  if (const auto* replay = std::get_if<TraceTraffic>(&service.traffic)) return trace_mean(*replay, begin_s, end_s);
  return mean_rate_per_s(service.traffic);
}

// The mix of sizes at an instant.
SizeCounts true_mix(const Service& service, double at_s) {
  Service part = service;
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

class Comparison {
 public:
  Comparison(const Scenario& scenario, const Fleet& fleet, const ReplanOptions& options)
      : scenario_(scenario), fleet_(fleet), options_(options), duration_s_(to_seconds(scenario.config.duration)) {}

  Result<ReplanComparison> run() {
    ReplanComparison comparison;
    comparison.duration_s = duration_s_;
    // The plan for the peak comes first: a fleet that is too small is then refused before a day is simulated on it.
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

  // What services ask for within a span of time, as one who knows.
  std::vector<ServiceDemand> truth(double begin_s, double end_s) const {
    std::vector<ServiceDemand> demand;
    for (const auto& service : services()) {
      const double rate =
          scale() * busiest_rate_per_s(service, begin_s * scale_of_trace(service), end_s * scale_of_trace(service));
      demand.push_back({control::rounded_up(rate, options_.controller.watch.rate_step), true_mix(service, end_s)});
    }
    return demand;
  }

  // A trace that is scaled runs faster, so that other parts of it fall into the span.
  double scale_of_trace(const Service& service) const {
    return std::holds_alternative<TraceTraffic>(service.traffic) ? scale() : 1;
  }

  // The busiest minute of the scenario, with the longest inputs that it has in one window.
  std::vector<ServiceDemand> peak() const {
    std::vector<ServiceDemand> demand = truth(0, duration_s_);
    for (std::size_t s = 0; s < demand.size(); ++s) {
      SizeCounts at_first = true_mix(services()[s], 0);
      if (control::mean_size(at_first) > control::mean_size(demand[s].mix)) demand[s].mix = std::move(at_first);
    }
    return demand;
  }

  double first_window_s() const {
    return std::min(duration_s_, to_seconds(options_.controller.interval) + to_seconds(options_.oracle_lead));
  }

  // Each run has a certifier of its own, so that no run profits from what another has simulated.
  SimulatedCertifier certifier_for_run() const { return {*scenario_.latency, options_.certify}; }

  Replanner replanner_with(plan::Certifier& certifier) const {
    plan::Problem problem;
    problem.fleet = fleet_;
    problem.workload = scenario_.workload;
    problem.latency = scenario_.latency.get();
    problem.options.rule = options_.rule;
    problem.certifier = &certifier;
    return Replanner(std::move(problem));
  }

  static Error refused(const Replanner& replanner) {
    return {ErrorCode::invalid, "the fleet cannot carry the services: " + replanner.reason()};
  }

  std::vector<bool> nobody() const { return std::vector<bool>(services().size(), false); }

  Result<control::NewPlan> first_plan(Replanner& replanner, const std::vector<ServiceDemand>& demand) const {
    TANGRAM_TRY(auto made, replanner.plan(demand, nobody()));
    if (!made) return refused(replanner);
    made->step.reasons = {"at the start"};
    return std::move(*made);
  }

  Result<ReplanRun> run_static() {
    auto certifier = certifier_for_run();
    Replanner replanner = replanner_with(certifier);
    TANGRAM_TRY(auto first, first_plan(replanner, peak()));
    return simulate("static", first, {}, options_.controller.interval);
  }

  // What a run does with an observation: the plan to put in force, or nothing.
  using Decide = std::function<std::optional<control::NewPlan>(const control::Observation&)>;

  // The controller follows what it observes. Only its first plan is told the truth, like that of the oracle.
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

  // Plans for the truth after `seen`, unless it is what is `planned`. Counts in `refused` what the fleet cannot carry.
  std::optional<control::NewPlan> foresee(const control::Observation& seen, Replanner& replanner,
                                          std::vector<ServiceDemand>& planned, int& refused) const {
    if (seen.moving) return std::nullopt;
    const double at = to_seconds(seen.at);
    auto demand = truth(at, std::max(at + 1, std::min(duration_s_, at + first_window_s())));
    std::vector<bool> remixed = nobody();
    bool same = true;
    for (std::size_t s = 0; s < demand.size(); ++s) {
      remixed[s] = control::mix_distance(demand[s].mix, planned[s].mix) > options_.oracle_mix_drift;
      if (!remixed[s]) demand[s].mix = planned[s].mix;
      same = same && !remixed[s] && demand[s].rate_per_s == planned[s].rate_per_s;
    }
    if (same) return std::nullopt;
    auto made = replanner.plan(demand, remixed);
    if (!made || !*made) {
      ++refused;
      return std::nullopt;
    }
    planned = std::move(demand);
    (*made)->step.reasons = {"the rates to come"};
    return std::move(*made);
  }

  Duration reshape_time(const sched::DeployedDevice& before, const Layout& target) const {
    const auto missing = [](const Layout& in, const Layout& from) {
      return static_cast<std::size_t>(std::ranges::count_if(
          from.slices, [&](const Slice& slice) { return std::ranges::find(in.slices, slice) == in.slices.end(); }));
    };
    const std::size_t created = missing(before.layout, target);
    const std::size_t destroyed = missing(target, before.layout);
    Duration takes{};
    if (destroyed > 0) takes += options_.recut.destroy(destroyed);
    if (created > 0) takes += options_.recut.create(created);
    // Models are loaded onto the slices of a device at once.
    return target.slices.empty() ? takes : takes + options_.load;
  }

  Result<ReplanRun> simulate(const std::string& name, control::NewPlan& first, const Decide& decide, Duration every) {
    ReplanRun run;
    run.name = name;
    run.steps.push_back(first.step);
    sim::SimulationConfig config = scenario_.config;
    config.plan_changes.clear();
    config.timeline_steps = windows();
    // Devices that hold nothing are made ready at the same time, from when the plan is decided. The scheduler asks for
    // them one after the other, and first; the second finds that most of its time has passed.
    Duration since_decision{};
    config.reshape_time = [this, &since_decision](const sched::DeployedDevice& before, const Layout& target) {
      Duration takes = reshape_time(before, target);
      if (before.layout.slices.empty()) takes = std::max(Duration::zero(), takes - since_decision);
      since_decision += takes;
      return takes;
    };
    if (decide) {
      config.controller.interval = every;
      config.controller.decide = [&](const control::Observation& seen) -> std::optional<sched::Deployment> {
        if (to_seconds(seen.at) >= duration_s_) return std::nullopt;  // Nothing more comes.
        auto made = decide(seen);
        if (!made) return std::nullopt;
        since_decision = Duration::zero();
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

  std::size_t windows() const {
    return static_cast<std::size_t>(std::ceil(duration_s_ / to_seconds(options_.controller.interval) - 1e-9));
  }

  void account(ReplanRun& run) const {
    const auto& use = run.result.fleet_use;
    for (std::size_t i = 0; i < use.size(); ++i) {
      const double from = std::min(duration_s_, to_seconds(use[i].at));
      const double until = i + 1 < use.size() ? std::min(duration_s_, to_seconds(use[i + 1].at)) : duration_s_;
      run.gpu_hours += static_cast<double>(use[i].devices) * (until - from) / 3600;
      run.slice_hours += use[i].compute_slices * (until - from) / 3600;
      run.devices_max = std::max(run.devices_max, static_cast<int>(use[i].devices));
    }
    for (std::size_t i = 1; i < run.steps.size(); ++i) run.replicas_loaded += run.steps[i].replicas_loaded;
    const auto total = run.result.metrics.total();
    run.unresolved = run.result.requests - std::min(run.result.requests, total.resolved() + warmup(run));
    TANGRAM_CHECK(total.arrived == total.resolved(), "every request is resolved once");
  }

  std::uint64_t warmup(const ReplanRun& run) const {
    return std::min(run.result.requests, scenario_.config.warmup_requests);
  }

  const Scenario& scenario_;
  const Fleet& fleet_;
  const ReplanOptions& options_;
  double duration_s_;
};

}  // namespace

double busiest_rate_per_s(const Service& service, double begin_s, double end_s) {
  double most = 0;
  for (double at = begin_s; at < end_s - 1e-9; at += kMinute) {
    most = std::max(most, mean_rate(service, at, std::min(at + kMinute, end_s)));
  }
  return most;
}

Result<ReplanComparison> compare_replanning(const Scenario& scenario, const Fleet& fleet,
                                            const ReplanOptions& options) {
  if (scenario.config.duration == Duration::max()) {
    return Error{ErrorCode::invalid, "planning over time needs duration_s"};
  }
  for (const auto& service : scenario.workload.services) {
    if (!std::holds_alternative<ClosedLoopTraffic>(service.traffic)) continue;
    return Error{ErrorCode::invalid, fmt::format("{}: a closed loop has no rate to plan for", service.name)};
  }
  return Comparison(scenario, fleet, options).run();
}

}  // namespace tangram::lab

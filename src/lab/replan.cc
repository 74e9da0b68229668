#include "lab/replan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "base/math.h"
#include "plan/demand.h"
#include "plan/difference.h"
#include "plan/replan.h"
#include "sched/deployment.h"

namespace tangram::lab {
namespace {

constexpr double kMinute = 60;

// A share of requests that is always planned for at the longest size, so that no bucket ends below it.
constexpr double kLongestShare = 1e-6;

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

double mean_size(const SizeCounts& mix) {
  double sum = 0;
  double total = 0;
  for (const auto& [size, count] : mix) {
    sum += static_cast<double>(size) * count;
    total += count;
  }
  return total > 0 ? sum / total : 0;
}

// ---- Planning ----

// What a plan is made for, by service.
struct Demanded {
  double rate_per_s = 0;
  SizeCounts mix;
};

// Smallest power of 1 + step that is not below the rate.
double rounded_up(double rate, double step) {
  const double base = math::log(1 + step);
  return math::exp(base * std::ceil(math::log(std::max(rate, 1e-3)) / base - 1e-9));
}

struct Made {
  plan::PlanAnswer answer;
  sched::Deployment deployment;
  PlanStep step;
};

// Plans for demands, each close to the plan before it.
class Replanner {
 public:
  Replanner(const Scenario& scenario, const Fleet& fleet, const ReplanOptions& options)
      : scenario_(scenario), fleet_(fleet), options_(options) {}

  // Plans for `demand`; nothing if the fleet cannot carry it. `remixed` says whose sizes have changed.
  Result<std::optional<Made>> plan(const std::vector<Demanded>& demand, const std::vector<bool>& remixed) {
    // Answers of the certifier hold for the sizes that it was asked with.
    if (certifier_ == nullptr || std::ranges::find(remixed, true) != remixed.end()) {
      certifier_ = std::make_unique<SimulatedCertifier>(*scenario_.latency, options_.certify);
    }
    const plan::Problem problem = problem_for(demand);
    plan::PlanAnswer answer;
    bool from_scratch = true;
    if (current_) {
      plan::PlanAnswer previous = *current_;
      // A service whose sizes have changed is planned like a new one, with buckets of its own choice.
      std::erase_if(previous.services, [&](const plan::ServicePlan& service) {
        for (std::size_t s = 0; s < remixed.size(); ++s) {
          if (remixed[s] && scenario_.workload.services[s].name == service.service) return true;
        }
        return false;
      });
      plan::Replanned anew = plan::replan(problem, previous);
      answer = std::move(anew.answer);
      from_scratch = anew.from_scratch;
    } else {
      answer = plan::find_planner("elastic")->make()->plan(problem);
    }
    if (answer.status != plan::PlanStatus::planned) {
      reason_ = answer.reason;
      return std::optional<Made>{};
    }
    return adopt(std::move(answer), from_scratch);
  }

  const std::string& reason() const { return reason_; }

 private:
  plan::Problem problem_for(const std::vector<Demanded>& demand) const {
    plan::Problem problem;
    problem.fleet = fleet_;
    problem.workload = scenario_.workload;
    problem.latency = scenario_.latency.get();
    problem.options.rule = options_.rule;
    problem.certifier = certifier_.get();
    for (std::size_t s = 0; s < demand.size(); ++s) {
      Service& service = problem.workload.services[s];
      const std::int64_t longest = largest_size(service);
      service.traffic = PoissonTraffic{demand[s].rate_per_s};
      service.size_drift.reset();
      SizeCounts mix = demand[s].mix;
      double total = 0;
      for (const auto& [size, count] : mix) total += count;
      mix[longest] += kLongestShare * std::max(total, 1.0);
      HistogramSize histogram;
      for (const auto& [size, count] : mix) histogram.bins.push_back({size, count});
      service.input_size = std::move(histogram);
    }
    return problem;
  }

  // Gives the roles of the new plan to devices such that little moves, and compiles it.
  Result<std::optional<Made>> adopt(plan::PlanAnswer answer, bool from_scratch) {
    Made made;
    made.step.from_scratch = from_scratch;
    const auto difference = plan::diff(current_ ? current_->plan : Plan{}, answer.plan);
    if (!difference) return difference.error();
    answer.plan = difference->target;
    if (current_) make_before_break(*difference, answer.plan);
    count(answer.plan, made.step);
    auto deployment = sched::compile(answer.plan, scenario_.workload, *scenario_.latency);
    if (!deployment) return deployment.error();
    made.deployment = std::move(*deployment);
    made.answer = answer;
    current_ = std::move(answer);
    return std::optional(std::move(made));
  }

  // A device that keeps nothing of what it runs is cut anew elsewhere while the fleet has one to spare, so that the old
  // slices serve until the new ones do.
  void make_before_break(const plan::Difference& difference, Plan& target) const {
    std::set<std::string> taken;
    for (const auto& device : difference.devices) taken.insert(device.before.name);
    for (const auto& device : target.devices) taken.insert(device.name);
    for (auto& device : target.devices) {
      const auto role =
          std::ranges::find_if(difference.devices, [&](const auto& entry) { return entry.after.name == device.name; });
      if (role == difference.devices.end() || role->before.slices.empty()) continue;
      const bool keeps = std::ranges::any_of(role->slices, [](const plan::SliceDifference& slice) {
        return slice.change == plan::SliceChange::kept && !slice.after.empty();
      });
      if (keeps) continue;
      if (const auto name = free_name(device.type, taken); !name.empty()) {
        taken.insert(name);
        device.name = name;
      }
    }
  }

  std::string free_name(const std::string& type, const std::set<std::string>& taken) const {
    for (const auto& group : fleet_.groups) {
      if (group.type != type) continue;
      const int most = group.count.value_or(static_cast<int>(taken.size()) + 1);
      for (int i = 0; i < most; ++i) {
        std::string name = fmt::format("{}-{}", group.name.empty() ? group.type : group.name, i);
        if (!taken.contains(name)) return name;
      }
    }
    return {};
  }

  // What the new plan has, and what it takes to get there.
  void count(const Plan& target, PlanStep& step) const {
    std::map<std::string, const PlannedDevice*> before;
    if (current_) {
      for (const auto& device : current_->plan.devices) before[device.name] = &device;
    }
    for (const auto& device : target.devices) {
      bool used = false;
      const PlannedDevice* old = before.contains(device.name) ? before.at(device.name) : nullptr;
      for (const auto& slice : device.slices) {
        if (slice.replicas.empty()) continue;
        used = true;
        step.compute_slices += device.geometry.profiles[slice.slice.profile].compute_slices;
        if (old == nullptr || std::ranges::find(old->slices, slice) == old->slices.end()) ++step.replicas_loaded;
      }
      step.devices += used ? 1 : 0;
      step.devices_recut += old != nullptr && !old->slices.empty() && layout_of(*old) != layout_of(device) ? 1 : 0;
    }
  }

  const Scenario& scenario_;
  const Fleet& fleet_;
  const ReplanOptions& options_;
  std::unique_ptr<SimulatedCertifier> certifier_;
  std::optional<plan::PlanAnswer> current_;
  std::string reason_;
};

// ---- The controller ----

// Watches one service.
class ServiceWatch {
 public:
  ServiceWatch(const ReplanOptions& options, const Demanded& planned)
      : options_(options), forecast_(options.forecast, planned.rate_per_s), surges_(options.surge), planned_(planned) {}

  // Between two windows: whether the rate has jumped beyond what is planned for.
  void look(std::uint64_t arrived, double seconds) {
    const auto demand = surges_.look(arrived, seconds, planned_.rate_per_s);
    if (!demand) return;
    surged_ = true;
    surge_demand_ = std::max(surge_demand_, rounded_up(*demand, options_.rate_step));
  }
  std::string surge_reason(const std::string& name) const {
    if (surge_demand_ <= planned_.rate_per_s * (1 + 1e-9)) return {};
    return fmt::format("{}: surge, rate {:.4g} -> {:.4g}", name, planned_.rate_per_s, surge_demand_);
  }

  void observe(const sim::ServiceObservation& window, double seconds, double promised_share) {
    forecast_.observe(window.arrived, seconds, surged_);
    const double surge = surge_demand_;
    const bool surged = surged_;
    surged_ = false;
    surge_demand_ = 0;
    // Promises that break although the rate is as planned ask for more than the forecast does.
    const std::uint64_t resolved = window.served + window.late + window.lost;
    const double kept = resolved == 0 ? 1 : static_cast<double>(window.served) / static_cast<double>(resolved);
    const bool as_planned = static_cast<double>(window.arrived) / seconds <= planned_.rate_per_s;
    if (as_planned && !surged && kept < promised_share - kBoostTolerance) {
      boost_ = std::min(kBoostMax, boost_ + options_.rate_step);
    } else {
      boost_ = std::max(0.0, boost_ - options_.rate_step / 4);
    }
    windows_.push_back(window.sizes);
    forget_old_windows();
    demand_ = std::max(surge, rounded_up(forecast_.demand_per_s() * (1 + boost_), options_.rate_step));
    quiet_ = demand_ < options_.scale_in_below * planned_.rate_per_s ? quiet_ + 1 : 0;
    quiet_demand_ = quiet_ <= 1 ? demand_ : std::max(quiet_demand_, demand_);
  }

  // Why the plan no longer fits; empty while it does.
  std::string rate_reason(const std::string& name) const {
    const double next = next_rate();
    if (next == planned_.rate_per_s) return {};
    return fmt::format("{}: rate {:.4g} -> {:.4g}", name, planned_.rate_per_s, next);
  }
  std::string mix_reason(const std::string& name) const {
    const SizeCounts mix = recent_mix();
    double requests = 0;
    for (const auto& [size, count] : mix) requests += count;
    if (requests < static_cast<double>(options_.mix_requests_min)) return {};
    const double distance = mix_distance(mix, planned_.mix);
    if (distance <= options_.mix_drift) return {};
    return fmt::format("{}: sizes moved by {:.2f}, mean {:.0f} -> {:.0f}", name, distance, mean_size(planned_.mix),
                       mean_size(mix));
  }

  // What to plan for now.
  Demanded wanted(bool remixed) const { return {next_rate(), remixed ? recent_mix() : planned_.mix}; }
  double planned_rate() const { return planned_.rate_per_s; }
  // What to plan for in the midst of a window.
  Demanded wanted_in_surge() const { return {std::max(planned_.rate_per_s, surge_demand_), planned_.mix}; }
  void planned(Demanded demand) {
    planned_ = std::move(demand);
    quiet_ = 0;
  }

 private:
  static constexpr double kBoostMax = 0.5;
  static constexpr double kBoostTolerance = 0.002;

  // More at once, less after a while.
  double next_rate() const {
    if (demand_ > planned_.rate_per_s * (1 + 1e-9)) return demand_;
    return quiet_ >= options_.quiet_windows ? quiet_demand_ : planned_.rate_per_s;
  }

  SizeCounts recent_mix() const {
    SizeCounts mix;
    for (const auto& window : windows_) {
      for (const auto& [size, count] : window) mix[size] += static_cast<double>(count);
    }
    return mix;
  }

  // Windows behind the newest that hold enough requests are of the past.
  void forget_old_windows() {
    const auto requests_without_oldest = [&] {
      std::uint64_t sum = 0;
      for (std::size_t i = 1; i < windows_.size(); ++i) {
        for (const auto& [size, count] : windows_[i]) sum += count;
      }
      return sum;
    };
    while (windows_.size() > 1 && requests_without_oldest() >= options_.mix_requests_min) windows_.pop_front();
  }

  const ReplanOptions& options_;
  RateForecast forecast_;
  SurgeWatch surges_;
  bool surged_ = false;      // In this window.
  double surge_demand_ = 0;  // What the surge of this window asks for.
  Demanded planned_;
  std::deque<std::map<std::int64_t, std::uint64_t>> windows_;
  double demand_ = 0;
  double boost_ = 0;
  int quiet_ = 0;
  double quiet_demand_ = 0;
};

// ---- The runs ----

class Comparison {
 public:
  Comparison(const Scenario& scenario, const Fleet& fleet, const ReplanOptions& options)
      : scenario_(scenario), fleet_(fleet), options_(options), duration_s_(to_seconds(scenario.config.duration)) {}

  Result<ReplanComparison> run() {
    ReplanComparison comparison;
    comparison.duration_s = duration_s_;
    // The plan for the peak comes first: a fleet that is too small is then refused before a day is simulated on it.
    auto fixed = run_static();
    if (!fixed) return fixed.error();
    auto replanned = run_replan();
    if (!replanned) return replanned.error();
    auto oracle = run_oracle();
    if (!oracle) return oracle.error();
    comparison.runs = {std::move(*replanned), std::move(*fixed), std::move(*oracle)};
    const double window = to_seconds(options_.interval);
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
  std::vector<Demanded> truth(double begin_s, double end_s) const {
    std::vector<Demanded> demand;
    for (const auto& service : services()) {
      const double rate =
          scale() * busiest_rate_per_s(service, begin_s * scale_of_trace(service), end_s * scale_of_trace(service));
      demand.push_back({rounded_up(rate, options_.rate_step), true_mix(service, end_s)});
    }
    return demand;
  }

  // A trace that is scaled runs faster, so that other parts of it fall into the span.
  double scale_of_trace(const Service& service) const {
    return std::holds_alternative<TraceTraffic>(service.traffic) ? scale() : 1;
  }

  // The busiest minute of the scenario, with the longest inputs that it has in one window.
  std::vector<Demanded> peak() const {
    std::vector<Demanded> demand = truth(0, duration_s_);
    for (std::size_t s = 0; s < demand.size(); ++s) {
      SizeCounts at_first = true_mix(services()[s], 0);
      if (mean_size(at_first) > mean_size(demand[s].mix)) demand[s].mix = std::move(at_first);
    }
    return demand;
  }

  double first_window_s() const {
    return std::min(duration_s_, to_seconds(options_.interval) + to_seconds(options_.oracle_lead));
  }

  static Error refused(const Replanner& replanner) {
    return {ErrorCode::invalid, "the fleet cannot carry the services: " + replanner.reason()};
  }

  std::vector<bool> nobody() const { return std::vector<bool>(services().size(), false); }

  Result<Made> first_plan(Replanner& replanner, const std::vector<Demanded>& demand) const {
    auto made = replanner.plan(demand, nobody());
    if (!made) return made.error();
    if (!*made) return refused(replanner);
    (*made)->step.reasons = {"at the start"};
    return std::move(**made);
  }

  Result<ReplanRun> run_static() {
    Replanner replanner(scenario_, fleet_, options_);
    auto first = first_plan(replanner, peak());
    if (!first) return first.error();
    return simulate("static", *first, {}, options_.interval);
  }

  // Decides at the end of each window; answers what the next is planned for, or nothing.
  using Decide = std::function<std::optional<Made>(const sim::Observation&, ReplanRun&)>;

  Result<ReplanRun> run_replan() {
    Replanner replanner(scenario_, fleet_, options_);
    const auto demand = truth(0, first_window_s());
    auto first = first_plan(replanner, demand);
    if (!first) return first.error();
    std::vector<ServiceWatch> watches;
    for (const auto& each : demand) watches.emplace_back(options_, each);
    sim::Observation window;
    return simulate(
        "replan", *first,
        [&](const sim::Observation& seen, ReplanRun& run) -> std::optional<Made> {
          gather(seen, window);
          for (std::size_t s = 0; s < watches.size() && looks(); ++s) {
            watches[s].look(seen.services[s].arrived, to_seconds(options_.look));
          }
          if (looks() && !ends_window(seen.at)) return meet_surges(seen, run, replanner, watches);
          auto made = watch(window, run, replanner, watches);
          window = {};
          return made;
        },
        looks() ? options_.look : options_.interval);
  }

  bool looks() const { return options_.look > Duration::zero() && options_.look < options_.interval; }
  // Looks need not divide a window evenly: the first one at its end or after it counts.
  bool ends_window(TimePoint at) const { return (at - kTimeZero) % options_.interval < options_.look; }

  static void gather(const sim::Observation& seen, sim::Observation& window) {
    window.at = seen.at;
    window.moving = seen.moving;
    window.services.resize(seen.services.size());
    for (std::size_t s = 0; s < seen.services.size(); ++s) {
      auto& sum = window.services[s];
      const auto& part = seen.services[s];
      sum.arrived += part.arrived;
      sum.served += part.served;
      sum.late += part.late;
      sum.lost += part.lost;
      sum.waiting = part.waiting;
      for (const auto& [size, count] : part.sizes) sum.sizes[size] += count;
    }
  }

  // Between windows only surges are met, and only by more.
  std::optional<Made> meet_surges(const sim::Observation& seen, ReplanRun& run, Replanner& replanner,
                                  std::vector<ServiceWatch>& watches) {
    std::vector<std::string> reasons;
    std::vector<Demanded> demand;
    for (std::size_t s = 0; s < watches.size(); ++s) {
      const std::string reason = watches[s].surge_reason(services()[s].name);
      if (!reason.empty()) reasons.push_back(reason);
      demand.push_back(watches[s].wanted_in_surge());
    }
    if (reasons.empty() || seen.moving) return std::nullopt;
    auto made = plan_or_stay(replanner, demand, nobody(), run);
    if (!made) return std::nullopt;
    for (std::size_t s = 0; s < watches.size(); ++s) {
      if (demand[s].rate_per_s > watches[s].planned_rate()) watches[s].planned(std::move(demand[s]));
    }
    made->step.reasons = std::move(reasons);
    return made;
  }

  std::optional<Made> watch(const sim::Observation& seen, ReplanRun& run, Replanner& replanner,
                            std::vector<ServiceWatch>& watches) {
    std::vector<std::string> reasons;
    std::vector<bool> remixed = nobody();
    for (std::size_t s = 0; s < watches.size(); ++s) {
      watches[s].observe(seen.services[s], to_seconds(options_.interval), services()[s].slo.percentile / 100);
      const std::string mix = watches[s].mix_reason(services()[s].name);
      remixed[s] = !mix.empty();
      for (const auto& reason : {watches[s].rate_reason(services()[s].name), mix}) {
        if (!reason.empty()) reasons.push_back(reason);
      }
    }
    // One plan moves at a time, and what is seen meanwhile is seen again in the next window.
    if (reasons.empty() || seen.moving) return std::nullopt;
    std::vector<Demanded> demand;
    for (std::size_t s = 0; s < watches.size(); ++s) demand.push_back(watches[s].wanted(remixed[s]));
    auto made = plan_or_stay(replanner, demand, remixed, run);
    if (!made) return std::nullopt;
    for (std::size_t s = 0; s < watches.size(); ++s) watches[s].planned(std::move(demand[s]));
    made->step.reasons = std::move(reasons);
    return made;
  }

  Result<ReplanRun> run_oracle() {
    Replanner replanner(scenario_, fleet_, options_);
    auto planned = truth(0, first_window_s());
    auto first = first_plan(replanner, planned);
    if (!first) return first.error();
    return simulate(
        "oracle", *first,
        [&](const sim::Observation& seen, ReplanRun& run) -> std::optional<Made> {
          if (seen.moving) return std::nullopt;
          const double at = to_seconds(seen.at);
          auto demand = truth(at, std::max(at + 1, std::min(duration_s_, at + first_window_s())));
          std::vector<bool> remixed = nobody();
          bool same = true;
          for (std::size_t s = 0; s < demand.size(); ++s) {
            remixed[s] = mix_distance(demand[s].mix, planned[s].mix) > options_.oracle_mix_drift;
            if (!remixed[s]) demand[s].mix = planned[s].mix;
            same = same && !remixed[s] && demand[s].rate_per_s == planned[s].rate_per_s;
          }
          if (same) return std::nullopt;
          auto made = plan_or_stay(replanner, demand, remixed, run);
          if (!made) return std::nullopt;
          planned = std::move(demand);
          made->step.reasons = {"the rates to come"};
          return made;
        },
        options_.interval);
  }

  std::optional<Made> plan_or_stay(Replanner& replanner, const std::vector<Demanded>& demand,
                                   const std::vector<bool>& remixed, ReplanRun& run) const {
    auto made = replanner.plan(demand, remixed);
    if (made && *made) return std::move(**made);
    ++run.plans_refused;
    return std::nullopt;
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

  Result<ReplanRun> simulate(const std::string& name, Made& first, const Decide& decide, Duration every) {
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
      config.controller.decide = [&](const sim::Observation& seen) -> std::optional<sched::Deployment> {
        if (to_seconds(seen.at) >= duration_s_) return std::nullopt;  // Nothing more comes.
        auto made = decide(seen, run);
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
    return static_cast<std::size_t>(std::ceil(duration_s_ / to_seconds(options_.interval) - 1e-9));
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

void RateForecast::observe(std::uint64_t requests, double seconds, bool surged) {
  const double rate = static_cast<double>(requests) / seconds;
  const double expected = forecast_per_s();
  if (expected > 0 && !surged) shortfalls_.push_back(rate / expected);
  if (shortfalls_.size() > options_.windows_max) shortfalls_.pop_front();
  const double before = level_;
  level_ = options_.level_weight * rate + (1 - options_.level_weight) * expected;
  trend_ = options_.trend_weight * (level_ - before) + (1 - options_.trend_weight) * trend_;
  newest_ = rate;
}

double RateForecast::forecast_per_s() const { return std::max(0.0, level_ + trend_); }

double RateForecast::demand_per_s() const {
  double shortfall = 1;
  if (!shortfalls_.empty()) {
    std::vector<double> sorted(shortfalls_.begin(), shortfalls_.end());
    std::ranges::sort(sorted);
    const double at = std::ceil(options_.quantile * static_cast<double>(sorted.size())) - 1;
    shortfall = std::clamp(sorted[static_cast<std::size_t>(std::max(0.0, at))], 1.0, options_.factor_max);
  }
  // The rate goes on moving within the window that is planned for, and a falling one may stop falling.
  const double demand = std::max(level_, forecast_per_s() + std::max(0.0, trend_) / 2) * shortfall;
  return std::min(demand, options_.factor_max * std::max(level_, newest_));
}

std::optional<double> SurgeWatch::look(std::uint64_t requests, double seconds, double planned_per_s) {
  const double rate = static_cast<double>(requests) / seconds;
  const double expected = planned_per_s * seconds;
  const bool above =
      static_cast<double>(requests) > expected + options_.deviations * std::sqrt(std::max(expected, 1.0));
  if (peak_ > 0) {
    // A surge that has been planned for goes on within the planned rate; its height is still worth to be known.
    peak_ = std::max(peak_, rate);
    calm_ = above ? 0 : calm_ + 1;
    if (calm_ >= options_.calm_looks) {
      peaks_.push_back(peak_);
      if (peaks_.size() > options_.surges_max) peaks_.pop_front();
      peak_ = 0;
    }
  }
  if (!above) return std::nullopt;
  peak_ = std::max(peak_, rate);
  calm_ = 0;
  double demand = rate * options_.margin;
  if (rate > options_.jump * planned_per_s && !peaks_.empty()) demand = std::max(demand, std::ranges::max(peaks_));
  return demand;
}

double mix_distance(const SizeCounts& a, const SizeCounts& b) {
  const auto classes = [](const SizeCounts& counts) {
    std::map<int, double> shares;
    double total = 0;
    for (const auto& [size, count] : counts) total += count;
    for (const auto& [size, count] : counts) {
      shares[static_cast<int>(std::floor(2 * math::log(static_cast<double>(size)) / math::log(2) + 1e-9))] +=
          count / total;
    }
    return shares;
  };
  auto shares = classes(a);
  for (const auto& [each, share] : classes(b)) shares[each] -= share;
  double sum = 0;
  for (const auto& [each, share] : shares) sum += std::abs(share);
  return sum / 2;
}

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

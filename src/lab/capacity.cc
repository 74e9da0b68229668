// The highest load that keeps every promise, by bracketing and bisection on a factor of all rates.
//
// Bisection needs a question with a monotonic answer. Simulations are noisy, so all trials draw the same random
// numbers: two loads then differ by the load and not by chance. Cost: about log2(factor) trials to bracket and log2(1 /
// tolerance) to bisect, seven of them at one percent.

#include "lab/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

namespace tangram::lab {
namespace {

// A service needs this many counted arrivals before its attainment says anything.
constexpr std::uint64_t kArrivalsMin = 20;
// The deficit of a service with too few arrivals: negative, and smaller than that of any promise really broken.
constexpr double kTooFew = 1e-9;

struct Trial {
  std::vector<ServiceAtCapacity> services;
  double rate_per_s = 0;
  std::uint64_t requests = 0;  // With those of the warm-up.
  std::size_t worst = 0;       // The service with the least reserve.
  double reserve = 0;          // Its share in time less what it promised; not negative: every promise is kept.
};

// The deployment for rates that are `scale` times as high. A limit on the rate of a service that shares slices is for
// the rates that the plan was made for; the question here is what the slices can do. Lower rates need no lower limit.
sched::Deployment with_limits_scaled(sched::Deployment deployment, double scale) {
  for (auto& service : deployment.services) service.rate_max_per_s *= std::max(1.0, scale);
  return deployment;
}

class Search {
 public:
  Search(const Scenario& scenario, const CapacityOptions& options, const std::function<bool(int)>& trial_done)
      : scenario_(scenario), options_(options), trial_done_(trial_done), config_(scenario.config) {
    if (!options.policy.empty()) config_.scheduler.policy = options.policy;
    // Only the counts matter, so nothing is recorded that costs memory.
    config_.timeline_steps = 0;
    config_.batches_recorded_max = 0;
    config_.log_decisions = false;
  }

  Result<CapacityResult> run() {
    result_.policy = config_.scheduler.policy;
    double low = 0;
    double high = 0;
    bracket(low, high);
    if (!counts_) return Error{ErrorCode::invalid, nothing_counted()};
    // Without both ends there is nothing to bisect: no load is light enough, or none within the limits is too heavy.
    while (!stopped_ && low > 0 && high > 0 && high - low > options_.tolerance * low) {
      const double middle = 0.5 * (low + high);
      (feasible(middle) ? low : high) = middle;
    }
    result_.infeasible_scale = high;
    return std::move(result_);
  }

 private:
  // Leaves `low` at a load that is kept (0: none) and `high` at one that is not (0: none).
  void bracket(double& low, double& high) {
    double scale = scenario_.config.rate_scale;
    if (feasible(scale)) {
      // Doubling finds the other end in few trials however far away it is.
      for (low = scale; !stopped_ && high == 0 && scale * 2 <= kCapacityScaleMax;) {
        scale *= 2;
        (feasible(scale) ? low : high) = scale;
      }
      return;
    }
    for (high = scale; !stopped_ && low == 0 && scale / 2 >= kCapacityScaleMin;) {
      scale /= 2;
      (feasible(scale) ? low : high) = scale;
    }
  }

  // Explains a first trial without a counted request. Any load would then seem to keep every promise.
  std::string nothing_counted() const {
    if (requests_first_ == 0) return "no request arrives in the whole run, so no promise can be broken";
    return fmt::format("none of the {} requests of the run is counted, because warmup_requests is {}", requests_first_,
                       config_.warmup_requests);
  }

  // One trial at `scale`. Ensures that result_ describes the highest feasible load so far, because each feasible trial
  // of the search is at a higher load than those before, or is the first one.
  bool feasible(double scale) {
    Trial trial = simulate(scale);
    ++result_.trials;
    stopped_ = trial_done_ && !trial_done_(result_.trials);
    // The scenario's own load comes first. If it counts no request, further trials prove nothing.
    if (result_.trials == 1) {
      counts_ = std::ranges::any_of(trial.services, &ServiceAtCapacity::counted);
      requests_first_ = trial.requests;
      stopped_ = stopped_ || !counts_;
    }
    if (trial.reserve < 0) {
      // The last infeasible trial is the one nearest above the answer, so its worst service is the bottleneck.
      result_.binding = trial.services[trial.worst].service;
      return false;
    }
    result_.rate_scale = scale;
    result_.rate_per_s = trial.rate_per_s;
    result_.services = std::move(trial.services);
    return true;
  }

  Trial simulate(double scale) {
    config_.rate_scale = scale;
    config_.plan_changes = scenario_.config.plan_changes;
    for (auto& change : config_.plan_changes) {
      change.deployment = with_limits_scaled(std::move(change.deployment), scale);
    }
    const auto result = sim::simulate(with_limits_scaled(scenario_.deployment, scale), scenario_.workload, config_);
    const double counted_s = to_seconds(result.counted);
    Trial trial;
    trial.requests = result.requests;
    for (std::size_t s = 0; s < scenario_.workload.services.size(); ++s) {
      const Service& service = scenario_.workload.services[s];
      const sim::Tally tally = result.metrics.service_total(s);
      const double percentile = options_.percentile.value_or(service.slo.percentile);
      const double rate = counted_s > 0 ? static_cast<double>(tally.arrived) / counted_s : 0;
      trial.services.push_back({service.name, percentile, rate, tally.slo_attainment(),
                                tally.arrived == 0 ? Duration{} : tally.latency_quantile(percentile / 100),
                                service.slo.latency, tally.arrived > 0});
      trial.rate_per_s += rate;
      // Whether a promise is kept is judged by the exact count; the quantile of the sketch is off by up to 0.4 %. With
      // very few requests, none may be late by luck, so such a light load counts as broken, by so little that a promise
      // that is really broken ranks first.
      if (needed_.size() <= s) needed_.push_back(std::min(kArrivalsMin, tally.arrived));
      const double reserve = tally.arrived < needed_[s] ? -kTooFew : tally.slo_attainment() - percentile / 100;
      if (s == 0 || reserve < trial.reserve) {
        trial.reserve = reserve;
        trial.worst = s;
      }
    }
    return trial;
  }

  const Scenario& scenario_;
  const CapacityOptions& options_;
  const std::function<bool(int)>& trial_done_;
  sim::SimulationConfig config_;
  CapacityResult result_;
  std::vector<std::uint64_t> needed_;  // Arrivals that a trial needs, by service; what the first trial had if fewer.
  bool stopped_ = false;
  bool counts_ = false;               // The first trial counted a request.
  std::uint64_t requests_first_ = 0;  // Of the first trial.
};

// A closed loop sends its next request after the last answer. Only its think time can make the load lighter or heavier,
// so a loop without think time has nothing to scale.
bool without_rate(const Service& service) {
  const auto* loop = std::get_if<ClosedLoopTraffic>(&service.traffic);
  return loop != nullptr && loop->think_mean_s <= 0;
}

}  // namespace

Result<CapacityResult> find_capacity(const Scenario& scenario, const CapacityOptions& options,
                                     const std::function<bool(int)>& trial_done) {
  if (std::ranges::all_of(scenario.workload.services, without_rate)) {
    return Error{
        ErrorCode::invalid,
        "a closed loop without think time has no rate to scale: set think_mean_s, or choose another kind of traffic"};
  }
  return Search(scenario, options, trial_done).run();
}

}  // namespace tangram::lab

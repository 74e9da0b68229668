// Plans that follow the traffic: a controller that observes a simulated day and replans, beside a plan for the peak
// that never changes and an oracle that knows the rates to come.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "control/controller.h"
#include "core/fleet.h"
#include "lab/certify.h"
#include "lab/scenario.h"
#include "plan/problem.h"
#include "plan/transition.h"
#include "sim/simulation.h"

namespace tangram::lab {

// The rate of a service at its busiest minute within [begin_s, end_s), as its traffic has it, without chance. Bursts
// count with their mean; the planner adds their shape. `minute_s` is how long a minute is, in a day that passes faster.
double busiest_rate_per_s(const Service& service, double begin_s, double end_s, double minute_s = 60);

// What the services of `workload` ask for within a span of time, as their traffic has it: the rate of the busiest
// minute, rounded up in steps of `rate_step`, and the input sizes at the end of the span.
std::vector<control::ServiceDemand> described_demand(const Workload& workload, double begin_s, double end_s,
                                                     double rate_step);
// The same for the busiest minute of all time: one period of what repeats, the whole of a trace.
std::vector<control::ServiceDemand> described_peak(const Workload& workload, double rate_step);

struct ReplanComparisonOptions {
  control::ControllerOptions controller;
  plan::Rule rule = plan::Rule::certified;
  plan::Sharing sharing = plan::Sharing::none;
  plan::Objective objective = plan::Objective::devices;  // Or price.
  plan::RecutTimes recut;
  Duration load = plan::TransitionOptions{}.load_default;
  double oracle_mix_drift = 0.04;  // The oracle sees no chance in the mix, and so needs less of a drift.
  Duration oracle_lead = std::chrono::minutes(1);  // The oracle is ready this much before a rate comes.
  Duration minute = std::chrono::minutes(1);       // True rates are means over so long.
  // Shorter than for a plan that stays: a day has a hundred plans, and a wrong one is replaced within minutes.
  CertifyOptions certify{.requests_look = 100'000, .requests_confirm = 200'000, .confirmations = 1};
  std::function<bool(const std::string& run, double share)> progress;  // False stops.
};

// The options in a day that passes `speed` times as fast (core/day.h): windows, looks, cutting, loading, the oracle's
// lead and the minute over which rates are taken.
ReplanComparisonOptions at_speed(ReplanComparisonOptions options, double speed);
// The scenario in such a day: its traffic, its duration and the time between losses of slices. How long a worker takes
// to start again stays real.
Scenario at_speed(Scenario scenario, double speed);

using control::PlanStep;

struct ReplanRun {
  std::string name;  // "replan", "static" or "oracle"
  sim::SimulationResult result;
  std::vector<PlanStep> steps;  // The first is the plan at the start.
  // Of devices with at least one replica, up to the end of the scenario, by device type: hours of different types are
  // never added up.
  std::map<std::string, double, std::less<>> gpu_hours;
  double slice_hours = 0;       // Of compute slices with a replica.
  double cost = 0;              // Of the GPU-hours, by the fleet's price of each device.
  int devices_max = 0;
  int replicas_loaded = 0;
  int plans_refused = 0;         // Times that the fleet could not carry the demand: the plan stayed as it was.
  std::uint64_t unresolved = 0;  // Requests without exactly one answer.

  double attainment() const { return result.metrics.total().slo_attainment(); }
};

struct ReplanComparison {
  std::vector<ReplanRun> runs;                   // replan, static, oracle.
  std::vector<std::vector<double>> rates_per_s;  // By service and window: the true rate, for pictures.
  double duration_s = 0;
  plan::Objective objective = plan::Objective::devices;  // What was saved: GPU-hours, or their cost.
};

// Plans for `fleet` and simulates the scenario three times, on the same requests. Errors: the scenario has no end, a
// service has no rate to plan for, or the fleet cannot carry the busiest hour.
Result<ReplanComparison> compare_replanning(const Scenario& scenario, const Fleet& fleet, const ReplanComparisonOptions& options);

}  // namespace tangram::lab

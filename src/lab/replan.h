// Plans that follow the traffic: a controller that watches a simulated day and plans anew, beside a plan for the peak
// that never changes and an oracle that knows the rates to come.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/fleet.h"
#include "lab/certify.h"
#include "lab/scenario.h"
#include "plan/problem.h"
#include "plan/transition.h"
#include "sim/simulation.h"

namespace tangram::lab {

// Looks ahead by one window: level and trend of the rate (Holt's method), times what past forecasts fell short by.
class RateForecast {
 public:
  struct Options {
    double level_weight = 0.6;  // Share of the newest window.
    double trend_weight = 0.4;
    double quantile = 0.95;        // Of what windows turned out to be over what was forecast for them, ...
    std::size_t windows_max = 24;  // ... in so many of the last windows.
    double factor_max = 1.5;       // At most; one jump does not hold devices for hours, nor is it taken for a trend.
  };
  RateForecast(const Options& options, double first_rate_per_s) : options_(options), level_(first_rate_per_s) {}

  // A window of `seconds` brought `requests`. What a window with a surge fell short by is not remembered: surges are
  // met as they come, and are no reason to hold devices for hours.
  void observe(std::uint64_t requests, double seconds, bool surged = false);
  // Requests a second to be ready for in the next window.
  double demand_per_s() const;
  double level_per_s() const { return level_; }

 private:
  double forecast_per_s() const;

  Options options_;
  double level_;
  double trend_ = 0;  // A window.
  double newest_ = 0;
  std::deque<double> shortfalls_;  // Observed over forecast.
};

// Notices rates that jump. The rate of each look is held against the planned one; an excess that chance does not
// explain begins a surge. How far surges go is remembered, and the next one is planned for as far at once.
class SurgeWatch {
 public:
  struct Options {
    double deviations = 4;       // An excess of so many standard deviations of a Poisson number is not chance.
    double margin = 1.25;        // What is planned for over what was seen: a jump is mostly seen halfway.
    double jump = 1.3;           // A rate this many times the planned one is met with what earlier surges came to, ...
    std::size_t surges_max = 4;  // ... so many of them, the highest.
    int calm_looks = 6;          // So many looks within the planned rate end a surge.
  };
  explicit SurgeWatch(const Options& options) : options_(options) {}

  // A look of `seconds` brought `requests`. Answers the rate to plan for at once, or nothing.
  std::optional<double> look(std::uint64_t requests, double seconds, double planned_per_s);

 private:
  Options options_;
  double peak_ = 0;  // Of the surge that goes on; 0: none does.
  int calm_ = 0;
  std::deque<double> peaks_;  // Of those before.
};

// How far two mixes of input sizes are apart: the total variation distance of their shares in classes of sizes that
// grow by a factor of the square root of two. Counting exact sizes would see chance as drift.
using SizeCounts = std::map<std::int64_t, double>;
double mix_distance(const SizeCounts& a, const SizeCounts& b);

// The rate of a service at its busiest minute within [begin_s, end_s), as its traffic has it, without chance. Bursts
// count with their mean.
double busiest_rate_per_s(const Service& service, double begin_s, double end_s);

struct ReplanOptions {
  Duration interval = std::chrono::minutes(5);
  Duration look = std::chrono::seconds(10);  // Rates are looked at for surges so often between; 0: they are not.
  RateForecast::Options forecast;
  SurgeWatch::Options surge;
  double rate_step = 0.1;                 // Rates are planned for in steps of this share, rounded up.
  double scale_in_below = 0.85;           // A smaller demand than this share of the planned one is quiet, ...
  int quiet_windows = 3;                  // ... and after so many quiet windows less is planned for.
  double mix_drift = 0.15;                // A mix of sizes this far from the planned one is planned for anew.
  std::uint64_t mix_requests_min = 1000;  // Of so many of the newest requests at least.
  plan::Rule rule = plan::Rule::certified;
  plan::RecutTimes recut;
  Duration load = plan::TransitionOptions{}.load_default;
  double oracle_mix_drift = 0.04;  // The oracle sees no chance in the mix, and so needs less of a drift.
  Duration oracle_lead = std::chrono::minutes(1);  // The oracle is ready this much before a rate comes.
  CertifyOptions certify{.runs = 4, .requests = 3000, .requests_confirm = 6000, .deviations = 2.353};
  std::function<bool(const std::string& run, double share)> progress;  // False stops.
};

// A plan that came into force.
struct PlanStep {
  TimePoint at;
  std::vector<std::string> reasons;  // "rank-answers: rate 12.1 -> 14.6"
  int devices = 0;
  int compute_slices = 0;
  int devices_recut = 0;    // Of those that stay in use.
  int replicas_loaded = 0;  // On slices where they were not.
  bool from_scratch = false;
};

struct ReplanRun {
  std::string name;  // "replan", "static" or "oracle"
  sim::SimulationResult result;
  std::vector<PlanStep> steps;  // The first is the plan at the start.
  double gpu_hours = 0;         // Of devices with at least one replica, up to the end of the scenario.
  double slice_hours = 0;       // Of compute slices with a replica.
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
};

// Plans for `fleet` and simulates the scenario three times, on the same requests. Errors: the scenario has no end, a
// service has no rate to plan for, or the fleet cannot carry the busiest hour.
Result<ReplanComparison> compare_replanning(const Scenario& scenario, const Fleet& fleet, const ReplanOptions& options);

}  // namespace tangram::lab

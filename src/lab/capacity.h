// How much a plan carries: the highest load at which every promise is kept.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lab/scenario.h"

namespace tangram::lab {

struct CapacityOptions {
  std::string policy;
  std::optional<double> percentile;  // Instead of each service's own.
  double tolerance = 0.01;           // Relative width at which the search ends.
};

struct ServiceAtCapacity {
  std::string service;
  double percentile = 99;
  double rate_per_s = 0;
  double attainment = 1;  // Share of all arrivals that were answered in time.
  Duration latency{};     // At the percentile; Duration::max() where so many had no answer.
  Duration slo{};
  bool counted = true;  // False: no request came, and there is neither a share nor a latency.
};

struct CapacityResult {
  std::string policy;
  double rate_scale = 0;                    // Of the scenario's rates; 0: no load is light enough.
  double rate_per_s = 0;                    // Of all services together.
  double infeasible_scale = 0;              // The lowest load that was seen to fail.
  std::vector<ServiceAtCapacity> services;  // At rate_scale.
  std::string binding;                      // The service that fails first above it; empty if none did.
  int trials = 0;
};

// Doubles or halves the load from the scenario's own until the answer is bracketed, then bisects. All trials draw the
// same random numbers. Every arrival counts, and a request without an answer has infinite latency, so rejecting
// requests does not raise the result. `trial_done` is called after every trial; if it returns false the search ends,
// and the result is what is known by then. Errors: the scenario's own load counts no request, because then no promise
// can be broken, or it has nothing to scale.
Result<CapacityResult> find_capacity(const Scenario& scenario, const CapacityOptions& options,
                                     const std::function<bool(int)>& trial_done = {});

// Loads beyond these factors of the scenario's are not tried.
inline constexpr double kCapacityScaleMin = 1.0 / 4096;
inline constexpr double kCapacityScaleMax = 4096;

}  // namespace tangram::lab

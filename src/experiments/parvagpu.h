// The published result of ParvaGPU, on its measurements and scenarios, and what exact planning makes of it.
#pragma once

#include <string>
#include <vector>

#include "core/latency_model.h"
#include "core/workload.h"
#include "experiments/data.h"
#include "plan/problem.h"

namespace tangram::experiments {

struct ParvaScenario {
  std::string name;
  Workload workload;
};

// The scenarios of parvagpu/scenarios.csv, in the order of the file; at least one.
Result<std::vector<ParvaScenario>> parva_scenarios(const File& file);

// The data have no memory. Plans with shared slices assume that each of the networks takes this much.
inline constexpr double kWeightsAssumedMib = 2500;

struct ParvaOptions {
  std::string device = "a100-80gb";
  int processes_max = 5;
  std::uint64_t seed = 1;
  double noise = 0;  // Spread of run times, of which the data have none.
  plan::Sharing sharing = plan::Sharing::none;
};

struct ParvaService {
  std::string service;
  double slo_ms = 0;
  double p99_ms = 0;
  double attainment = 0;
};

struct ParvaResult {
  std::string scenario;
  int parva = 0;    // Devices of ParvaGPU's own way under its rule; 0 in all of these: impossible.
  int elastic = 0;  // Of exact planning under the same rule.
  int bound = 0;
  bool proved = false;
  int certified = 0;        // Of exact planning with every promise simulated.
  int certified_bound = 0;  // No certified plan needs fewer.
  bool certified_proved = false;
  double noise = 0;              // The default spread of certificates, ...
  int certified_with_noise = 0;  // ... and the devices that a certified plan takes with it.
  int shared_with_noise = 0;     // The same with slices that services share, kWeightsAssumedMib for each network.
  int half_raised =
      0;  // Of exact planning under ParvaGPU's rule, its rates raised until every promise holds simulated.
  double half_rate_factor = 1;  // The largest of the factors.
  int no_waiting = 0;           // The bound if nothing ever waited.
  std::int64_t certifications = 0;
  std::vector<ParvaService> services;  // Under the certified plan.
  plan::PlanAnswer certified_plan;
  plan::PlanAnswer elastic_plan;
  std::string reason;  // Where something is impossible.
};

// Only the plan by ParvaGPU's own way under its own rule.
plan::PlanAnswer plan_by_parva(const LatencyModel& model, const ParvaScenario& scenario,
                               const ParvaOptions& options = {});

// Only the plan in which every promise is simulated.
plan::PlanAnswer plan_certified(const LatencyModel& model, const ParvaScenario& scenario,
                                const ParvaOptions& options = {});

ParvaResult run_parvagpu(const LatencyModel& model, const ParvaScenario& scenario, const ParvaOptions& options = {});

}  // namespace tangram::experiments

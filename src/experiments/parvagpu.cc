// ParvaGPU's scenarios, planned in four ways: by its own method under its own rule (a run takes less than 0.9 of half
// the Slo), exactly under the same rule, exactly with every promise simulated, and under its rule with rates raised
// until the promises hold in simulation. The last one makes its rule comparable: without it, fewer devices may mean
// broken promises.

#include "experiments/parvagpu.h"

#include <algorithm>
#include <cmath>

#include "experiments/detail/assumed_weights.h"
#include "formats/import.h"
#include "formats/workload_file.h"
#include "lab/certify.h"
#include "plan/demand.h"

namespace tangram::experiments {
namespace {

// As many devices of one type as it takes, cut with the base profiles only.
plan::Problem make_problem(const LatencyModel& model, const Workload& workload, const ParvaOptions& options,
                           plan::Rule rule) {
  plan::Problem problem;
  DeviceGroup group;
  group.name = group.type = options.device;
  group.profiles = ProfileSet::base;
  problem.fleet.groups = {group};
  problem.workload = workload;
  problem.latency = &model;
  problem.options.rule = rule;
  problem.options.processes_max = options.processes_max;
  problem.options.bucketing = plan::Bucketing::longest;
  return problem;
}

plan::PlanAnswer plan_with(const char* planner, const plan::Problem& problem) {
  return plan::find_planner(planner)->make()->plan(problem);
}

// Raises the rates that the plan is made for, service by service, until every service holds its promise at the real
// rates.
int raise_half(const LatencyModel& model, const Workload& workload, const ParvaOptions& options, double* largest) {
  lab::SimulatedCertifier certifier(model, {.seed = options.seed, .noise = options.noise});
  Workload raised = workload;
  std::vector<double> factor(workload.services.size(), 1);
  // Steps of 5 %: 40 of them raise a rate sevenfold. A scenario that needs more counts as impossible.
  for (int round = 0; round < 40; ++round) {
    const auto answer = plan_with("elastic", make_problem(model, raised, options, plan::Rule::half));
    if (answer.status != plan::PlanStatus::planned) return 0;
    bool all = true;
    for (std::size_t s = 0; s < workload.services.size(); ++s) {
      // Planned for the raised rate, judged at the real one.
      const auto verdict = certifier.certify(workload.services[s], answer.services[s].groups, true);
      if (verdict.holds) continue;
      all = false;
      factor[s] *= 1.05;
      *largest = std::max(*largest, factor[s]);
      std::get<PoissonTraffic>(raised.services[s].traffic).rate_per_s *= 1.05;
    }
    if (all) return answer.devices;
  }
  return 0;
}

// Imported scenarios name no other file.
Result<std::string> read_nothing(const std::string& path) { return Error{ErrorCode::not_found, path}; }

}  // namespace

Result<std::vector<ParvaScenario>> parva_scenarios(const File& file) {
  if (!file) return file.error();
  TANGRAM_TRY(const auto names, distinct_values(*file, "scenario"));
  std::vector<ParvaScenario> scenarios;
  // The importer takes one scenario at a time, named after the colon.
  for (const auto& name : names) {
    TANGRAM_TRY(const auto imported, formats::import_text("parvagpu:" + name, {*file}));
    TANGRAM_TRY(auto workload, formats::parse_workload({file->name, imported}, read_nothing));
    scenarios.push_back({name, std::move(workload)});
  }
  if (scenarios.empty()) return Error{ErrorCode::invalid, file->name + ": has no scenario"};
  return scenarios;
}

plan::PlanAnswer plan_by_parva(const LatencyModel& model, const ParvaScenario& scenario, const ParvaOptions& options) {
  return plan_with("parva", make_problem(model, scenario.workload, options, plan::Rule::half));
}

plan::PlanAnswer plan_certified(const LatencyModel& model, const ParvaScenario& scenario, const ParvaOptions& options) {
  lab::SimulatedCertifier certifier(model, {.seed = options.seed, .noise = options.noise});
  auto problem = make_problem(model, scenario.workload, options, plan::Rule::certified);
  problem.certifier = &certifier;
  problem.options.sharing = options.sharing;
  return plan_with("elastic", problem);
}

ParvaResult run_parvagpu(const LatencyModel& model, const ParvaScenario& scenario, const ParvaOptions& options) {
  ParvaResult result;
  result.scenario = scenario.name;
  const auto half = make_problem(model, scenario.workload, options, plan::Rule::half);
  const auto parva = plan_by_parva(model, scenario, options);
  if (parva.status == plan::PlanStatus::planned) result.parva = parva.devices;
  result.elastic_plan = plan_with("elastic", half);
  result.reason = result.elastic_plan.reason;
  result.elastic = result.elastic_plan.devices;
  result.bound = static_cast<int>(std::lround(std::ceil(result.elastic_plan.bound - 1e-6)));
  result.proved = result.elastic_plan.proved;
  const auto free_of_waiting =
      plan_with("elastic", make_problem(model, scenario.workload, options, plan::Rule::no_waiting));
  result.no_waiting = static_cast<int>(std::lround(std::ceil(free_of_waiting.bound - 1e-6)));

  result.certified_plan = plan_certified(model, scenario, options);
  result.certified = result.certified_plan.devices;
  result.certified_bound = static_cast<int>(std::lround(std::ceil(result.certified_plan.bound - 1e-6)));
  result.certified_proved = result.certified_plan.proved;
  result.certifications = result.certified_plan.certifications;
  result.noise = lab::CertifyOptions{}.noise;
  ParvaOptions noisy = options;
  noisy.noise = result.noise;
  result.certified_with_noise = plan_certified(model, scenario, noisy).devices;
  noisy.sharing = plan::Sharing::all;
  result.shared_with_noise = plan_certified(detail::AssumedWeights(model, kWeightsAssumedMib), scenario, noisy).devices;
  for (std::size_t s = 0; s < result.certified_plan.services.size(); ++s) {
    const auto& service = result.certified_plan.services[s];
    result.services.push_back({service.service, to_milliseconds(scenario.workload.services[s].slo.latency),
                               service.verdict ? to_milliseconds(service.verdict->latency) : 0,
                               service.verdict ? service.verdict->attainment : 0});
  }
  result.half_raised = raise_half(model, scenario.workload, options, &result.half_rate_factor);
  return result;
}

}  // namespace tangram::experiments

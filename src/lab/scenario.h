// What to simulate: services, a plan, run times, a scheduler and the troubles of the day, in one YAML file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/latency_model.h"
#include "core/plan.h"
#include "core/workload.h"
#include "formats/describe.h"
#include "formats/source.h"
#include "sched/deployment.h"
#include "sim/simulation.h"

namespace tangram::lab {

struct TrainingSetup;

struct Scenario {
  std::string name;
  Workload workload;
  Plan plan;          // No devices where the file has none, only a fleet to plan for.
  std::string fleet;  // The path of the fleet file, as written; empty if there is none.
  std::shared_ptr<const LatencyModel> latency;
  sched::Deployment deployment;  // The plan, compiled.
  sim::SimulationConfig config;
  std::shared_ptr<const TrainingSetup> training;  // Jobs that train on what the services lend; null: none.

  // What runs and is probably not meant: services that the plan cannot serve, sizes that no bucket takes, promises that
  // no slice can keep. One sentence each.
  std::vector<std::string> warnings;

  formats::Node document;  // The file with its defaults filled in.
};

// True if it can run as it is. Otherwise a plan has to be made for its fleet first.
inline bool has_plan(const Scenario& scenario) { return !scenario.plan.devices.empty(); }

// `read_file` brings the services, plans, measurements and traces that the scenario names; a path is passed as
// written and is meant relative to the scenario. All problems of the file come back at once.
Result<Scenario> parse_scenario(const formats::Source& source, const formats::ReadFile& read_file);

// The scenario as it runs, defaults and overrides included, as a JSON document. Files stay named by their paths.
std::string effective_configuration(const Scenario& scenario);

// For the schema and the reference page.
formats::Shape scenario_shape();

}  // namespace tangram::lab

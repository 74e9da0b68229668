// A run has an end in time or after a number of requests. A time line needs the former, so a run of the latter kind is
// simulated twice: once to find its end. Simulations are deterministic, so the second run is the same.

#include "lab/run_scenario.h"

#include <utility>

#include "lab/training_fleet.h"

namespace tangram::lab {

Run run_scenario(const Scenario& scenario, sim::SimulationConfig config, const RunDetail& detail) {
  if (detail.timeline_steps > 0 && config.duration == Duration::max()) {
    // Every request arrives before the end, so the second run, which knows the end, has the same arrivals. The first
    // run must not write to the recording or tell the watcher, or these would have everything twice.
    config.timeline_steps = 0;
    const auto recording = std::exchange(config.recording, nullptr);
    const auto watcher = std::exchange(config.watcher, nullptr);
    config.duration = sim::simulate(scenario.deployment, scenario.workload, config).end.time_since_epoch();
    config.recording = recording;
    config.watcher = watcher;
  }
  config.timeline_steps = detail.timeline_steps;
  config.batches_recorded_max = detail.batches_max;
  config.log_decisions = detail.decisions;
  std::string policy = config.scheduler.policy;
  if (!scenario.training) {
    return {std::move(policy), sim::simulate(scenario.deployment, scenario.workload, config)};
  }
  // Training needs the plan beside the deployment: it cuts slices from what the plan leaves uncut.
  auto training = std::make_shared<TrainingResult>();
  auto result = simulate_with_training(*scenario.training,
                                       {scenario.plan, scenario.workload, scenario.deployment, *scenario.latency},
                                       std::move(config), training.get());
  return {std::move(policy), std::move(result), std::move(training)};
}

}  // namespace tangram::lab

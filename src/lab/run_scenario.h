// One run of a scenario: the scheduler in virtual time, with training beside it where the scenario has jobs.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "lab/scenario.h"
#include "sim/simulation.h"

namespace tangram::lab {

struct TrainingResult;

// Runs of one scenario that differ in the policy are compared side by side.
struct Run {
  std::string policy;
  sim::SimulationResult result;
  std::shared_ptr<const TrainingResult> training = nullptr;  // Null unless the scenario has training.
};

// What a run records beyond its numbers. Pictures and files need it; it costs memory.
struct RunDetail {
  std::size_t timeline_steps = 0;  // 0: no time line.
  std::size_t batches_max = 0;     // The first batches, up to this number.
  bool decisions = false;          // Every decision with its instant.
};

// Runs `scenario` under `config`, which is its own configuration or a changed copy (another policy, a progress
// callback). A scenario that ends after a number of requests and not at a time runs twice if a time line is wanted: the
// steps of a time line are shares of the duration, and the first run finds that duration. The same arguments give the
// same result.
Run run_scenario(const Scenario& scenario, sim::SimulationConfig config, const RunDetail& detail = {});

}  // namespace tangram::lab

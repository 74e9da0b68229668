// An application whose truth is the step model itself, for tests of this room and of those that simulate it.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "train/goodput.h"

namespace tangram::train {

inline StepModel test_step_model() {
  return {.alpha_compute = 0.02,
          .beta_compute = 0.001,
          .alpha_nodes = 0.05,
          .beta_nodes = 0.002,
          .alpha_local = 0.01,
          .beta_local = 0.001,
          .gamma = 2};
}

// Batches of 64 to 1024, 16 to 128 samples a worker, timed on 1 to 4 nodes with 1 to 4 workers each. A hundred steps of
// the smallest batch are an epoch; the noise of the gradient is eight times its square.
inline Application test_application(const std::string& name, int epochs) {
  const StepModel model = test_step_model();
  std::vector<TimedStep> steps;
  for (int nodes = 1; nodes <= 4; ++nodes) {
    for (int each = 1; each <= 4; ++each) {
      for (const int local : {16, 32, 64, 128}) {
        const int replicas = nodes * each;
        const double compute = model.compute_s(local);
        const double sync = replicas > 1 ? model.sync_s(nodes, replicas) : 0;
        const double step = std::sqrt(compute * compute + sync * sync);
        steps.push_back(
            {Placement(static_cast<std::size_t>(nodes), each), nodes, replicas, local, {step, step - compute}});
      }
    }
  }
  std::vector<ValidationRun> runs;
  for (const int batch : {64, 256, 1024}) {
    ValidationRun run{.batch = batch, .progress = {}, .iterations = {}, .gradients = {}};
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      run.progress.push_back(100.0 * epoch);
      run.iterations.push_back(100.0 * epoch * 64 / batch);
      run.gradients.push_back({1, 8});
    }
    runs.push_back(std::move(run));
  }
  return *Application::make(name, steps, runs);
}

}  // namespace tangram::train

// Goodput: how fast a training job learns, as Pollux (OSDI'21) models it.
//
// Throughput counts samples a second and follows from a model of the step time with seven parameters, fitted to the
// steps that the job itself has timed. Efficiency says how much a sample of a large batch is worth beside one of the
// smallest batch, and follows from the noise of the gradient. Goodput is their product.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/application.h"

namespace tangram::train {

// T_compute = alpha_compute + beta_compute * m for m samples on a worker. T_sync = alpha + beta * (K - 2) for K > 1
// workers, with the parameters of one node or of several. A step takes (T_compute^gamma + T_sync^gamma)^(1/gamma):
// gamma 1 means that they follow each other, 10 nearly that the longer hides the shorter.
struct StepModel {
  double alpha_compute = 0.1;
  double beta_compute = 0.01;
  double alpha_nodes = 0.1;  // Between nodes.
  double beta_nodes = 0.01;
  double alpha_local = 0.1;  // Within a node.
  double beta_local = 0.01;
  double gamma = 1.001;

  double compute_s(double local_batch) const { return alpha_compute + beta_compute * local_batch; }
  double sync_s(int nodes, int replicas) const;
  bool operator==(const StepModel&) const = default;
};

// How a job splits its batch.
struct BatchChoice {
  int local_batch = 0;   // Samples of one worker in one pass.
  int accumulation = 0;  // Passes before the one that synchronises.

  int total(int replicas) const { return replicas * local_batch * (accumulation + 1); }
  bool operator==(const BatchChoice&) const = default;
};

// What a job may choose from.
struct BatchLimits {
  int batch_min = 1;  // Also the batch size that efficiency refers to.
  int batch_max = 1;
  int local_batch_min = 1;
  int local_batch_max = 1;
};

BatchLimits limits_of(const Application& application);

// The worth of a sample at `batch` relative to one at `batch_min`, in (0, 1].
double efficiency(const Gradient& gradient, double batch, double batch_min);
// Progress of one step at `batch`, in steps of `batch_min`.
double gain(const Gradient& gradient, double batch, double batch_min);

// The split of a given batch, for jobs whose users fix it.
BatchChoice split_batch(const BatchLimits& limits, double batch, int replicas);

// The splits that a job considers with so many workers: fifty batches, evenly spaced in their logarithm. Those that no
// worker can hold are left out; the list is empty if all are.
std::vector<BatchChoice> batch_candidates(const BatchLimits& limits, int replicas);

// One step that a job has timed.
struct ProfilePoint {
  int nodes = 1;
  int replicas = 1;
  int local_batch = 1;
  StepTime time;
};

// The parameters with the least error over `points`, at least one. What was not seen is assumed to be perfect: no
// second node, no second worker, no third worker, no other local batch size. So jobs look better at sizes that they
// have not tried, and get to try them. `start` is where the search begins besides the usual place, e.g. the last
// answer.
StepModel fit_step_model(std::span<const ProfilePoint> points, const StepModel* start);

}  // namespace tangram::train

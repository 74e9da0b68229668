// Applications and jobs from a formula, for scenarios without traces.
//
// The formula is sampled on the same kind of grid as published traces (placements, local batches, epochs) and then goes
// through the same Application::make. A synthetic application thus behaves like a measured one in every respect,
// interpolation included.

#include "lab/synthetic_training.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/rng.h"
#include "train/goodput.h"

namespace tangram::lab {
namespace {

// Up to 16 nodes of 4 GPUs, 64 workers: the cluster of the published experiments.
constexpr int kNodesTimed[] = {1, 2, 3, 4, 8, 16};
constexpr int kPerNodeMax = 4;

// The bounds and the powers of two of the smallest in between.
std::vector<int> ladder(int low, int high) {
  std::vector<int> rungs;
  for (int rung = low; rung < high; rung *= 2) rungs.push_back(rung);
  rungs.push_back(high);
  return rungs;
}

// One step on `nodes` nodes with `each` workers on every one of them, each with a batch of `local`.
train::TimedStep timed(const SyntheticApplication& synthetic, int nodes, int each, int local) {
  const int replicas = nodes * each;
  const double compute_s = (synthetic.fixed_ms + synthetic.sample_ms * local) / 1000;
  // One worker does not synchronise. Beyond two workers each further one adds a tenth.
  const double sync_s = replicas == 1 ? 0
                                      : (nodes > 1 ? synthetic.sync_nodes_ms : synthetic.sync_local_ms) / 1000 *
                                            (1 + 0.1 * std::max(replicas - 2, 0));
  return {
      train::Placement(static_cast<std::size_t>(nodes), each), nodes, replicas, local, {compute_s + sync_s, sync_s}};
}

}  // namespace

train::Application application_of(const SyntheticApplication& synthetic) {
  std::vector<train::TimedStep> steps;
  // A quarter of the smallest batch, so that the smallest batch can be divided among four workers.
  const int worker_min = std::max(1, std::min(synthetic.batch_min, synthetic.worker_batch_max) / 4);
  for (const int nodes : kNodesTimed) {
    for (int each = 1; each <= kPerNodeMax; ++each) {
      for (const int local : ladder(worker_min, std::max(worker_min, synthetic.worker_batch_max))) {
        steps.push_back(timed(synthetic, nodes, each, local));
      }
    }
  }
  const train::Gradient gradient{1, synthetic.noise};
  std::vector<train::ValidationRun> runs;
  for (const int batch : ladder(synthetic.batch_min, synthetic.batch_max)) {
    train::ValidationRun run;
    run.batch = batch;
    for (int epoch = 1; epoch <= synthetic.epochs; ++epoch) {
      run.progress.push_back(synthetic.epoch_steps * epoch);
      // The same progress takes fewer iterations of a larger batch, by the gain of its gradient noise.
      run.iterations.push_back(synthetic.epoch_steps * epoch / train::gain(gradient, batch, synthetic.batch_min));
      run.gradients.push_back(gradient);
    }
    runs.push_back(std::move(run));
  }
  auto application = train::Application::make(synthetic.name, steps, runs);
  TANGRAM_CHECK(application.ok(), "the formula gives an application");
  return std::move(*application);
}

std::vector<formats::ClusterJob> jobs_of(const SyntheticJobs& synthetic, const train::Applications& applications,
                                         std::uint64_t seed) {
  // A stream of its own: the arrivals of requests do not change when jobs are added.
  Rng rng = Rng(seed).stream("training");
  std::vector<std::string> names = synthetic.applications;
  if (names.empty()) {
    for (const auto& [name, application] : applications) names.push_back(name);
  }
  std::vector<formats::ClusterJob> jobs;
  double at_s = 0;
  for (int i = 0; i < synthetic.count; ++i) {
    at_s += rng.exponential(synthetic.gap_mean_s);
    const std::string& name = names[rng.below(names.size())];
    const train::Application& application = applications.find(name)->second;
    // Users ask for one, two or four GPUs, and for a batch in proportion.
    const std::int64_t replicas = std::int64_t{1} << rng.integer(0, 2);
    jobs.push_back({.name = name + "-" + std::to_string(i),
                    .submit_s = std::floor(at_s),
                    .application = name,
                    .replicas = replicas,
                    .batch = std::min<std::int64_t>(application.batch_max(), application.batch_min() * replicas),
                    .kind = formats::JobKind::training,
                    .duration_s = std::nullopt});
  }
  return jobs;
}

}  // namespace tangram::lab

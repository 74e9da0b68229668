// The cheapest source of a GPU comes first: an empty one costs nothing, a sleeping replica a possible cold start later,
// training a restart now, and a guarded replica a cold start that is likely.

#include "experiments/gpu_finder.h"

#include <algorithm>

namespace tangram::experiments {

std::vector<int> GpuFinder::nodes_by_training(const std::vector<int>& training) const {
  std::vector<int> order;
  // Under Aryl the second half of the nodes is that of inference.
  const int first = run_.reclaim == train::ReclaimKind::server ? run_.nodes / 2 : 0;
  for (int node = first; node < run_.nodes; ++node) order.push_back(node);
  std::ranges::stable_sort(order, {}, [&](int node) { return training[static_cast<std::size_t>(node)]; });
  return order;
}

std::optional<int> GpuFinder::find(TrainingDraft& training, InferenceGpus& gpus, std::size_t pending, double now_s) {
  std::vector<int> used = training.gpus_on_nodes(run_.nodes);
  const auto order = nodes_by_training(used);
  gpus.add_to_nodes(used);
  for (const int node : order) {
    if (used[static_cast<std::size_t>(node)] < run_.gpus_per_node) return empty_server(training, node);
  }
  for (const int node : order) {
    if (gpus.close_asleep_on(node)) return empty_server(training, node);
  }
  // A fair share is the cluster divided by all that compete for it: jobs, replicas and pending requests.
  const int tenants = static_cast<int>(training.jobs.size() + gpus.count() + pending);
  const auto reclaim =
      train::choose_reclaim(run_.reclaim, training.views, run_.gpus(), std::max(tenants, 1), run_.nodes, rng_);
  if (!reclaim) return run_.prompt ? gpus.close_guarded(now_s) : std::nullopt;
  ++reclaims_;
  if (run_.reclaim == train::ReclaimKind::server) return empty_server(training, reclaim->node);
  train::remove_gpu(training.allocations[reclaim->job], reclaim->node);
  return reclaim->node;
}

int GpuFinder::empty_server(TrainingDraft& training, int node) {
  if (run_.reclaim == train::ReclaimKind::server) reclaims_ += training.leave(node);
  return node;
}

}  // namespace tangram::experiments

// Which GPU training gives up. The loss of a job is the speed-up that it has less the speed-up that it would have with
// one GPU fewer, so a job with a flat curve gives way before one that scales well.

#include "train/reclaim.h"

#include <algorithm>
#include <limits>

namespace tangram::train {
namespace {

// The speed-up that a job loses with one GPU of `share`. Taking the last GPU of a node also removes the node, which can
// even make the job faster.
double loss_of(const JobView& job, const Share& share, const Speedup& speedup) {
  const int gpus = gpus_of(*job.current);
  const int nodes = static_cast<int>(job.current->size());
  const int nodes_after = share.gpus == 1 ? nodes - 1 : nodes;
  return speedup(nodes, gpus) - speedup(nodes_after, gpus - 1);
}

// The price of the pause while the job's group is rebuilt: its whole speed-up for that time, spread over a minute,
// which is taken as the time until the next change.
double price_of(const JobView& job, const Speedup& speedup) {
  const int gpus = gpus_of(*job.current);
  return speedup(static_cast<int>(job.current->size()), gpus) * job.restart_fast_s / 60;
}

constexpr int kAnyNode = -1;

// Scans every share of every job: O(jobs * nodes of a job). `node` restricts it to one node.
std::optional<Reclaim> by_loss(std::span<const JobView> jobs, int gpus, int tenants, bool priced, int node) {
  std::optional<Reclaim> best;
  double best_loss = std::numeric_limits<double>::infinity();
  int best_gpus = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].current->empty()) continue;
    const Speedup speedup(*jobs[i].model, gpus, tenants);
    for (const auto& share : *jobs[i].current) {
      if (node != kAnyNode && share.node != node) continue;
      const double loss = loss_of(jobs[i], share, speedup) + (priced ? price_of(jobs[i], speedup) : 0);
      // Of equal losses, the node where the job has fewest, so that it ends up on fewer nodes.
      if (loss > best_loss || (loss == best_loss && share.gpus >= best_gpus)) continue;
      best = {i, share.node};
      best_loss = loss;
      best_gpus = share.gpus;
    }
  }
  return best;
}

// Uniform over GPUs, not over jobs: a job with more GPUs is chosen more often.
std::optional<Reclaim> by_chance(std::span<const JobView> jobs, Rng& rng) {
  std::vector<Reclaim> all;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    for (const auto& share : *jobs[i].current)
      all.insert(all.end(), static_cast<std::size_t>(share.gpus), {i, share.node});
  }
  if (all.empty()) return std::nullopt;
  return all[rng.below(all.size())];
}

// Of the nodes in the second half, which Aryl reserves for inference, the one with the least training; the caller moves
// all training off it. The job returned is one of those on the node.
std::optional<Reclaim> by_server(std::span<const JobView> jobs, int nodes) {
  std::vector<int> training(static_cast<std::size_t>(nodes), 0);
  std::vector<std::size_t> tenant(static_cast<std::size_t>(nodes), 0);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    for (const auto& share : *jobs[i].current) {
      training[static_cast<std::size_t>(share.node)] += share.gpus;
      tenant[static_cast<std::size_t>(share.node)] = i;
    }
  }
  std::optional<Reclaim> best;
  for (int node = nodes / 2; node < nodes; ++node) {
    const int here = training[static_cast<std::size_t>(node)];
    if (here > 0 && (!best || here < training[static_cast<std::size_t>(best->node)])) {
      best = {tenant[static_cast<std::size_t>(node)], node};
    }
  }
  return best;
}

}  // namespace

std::optional<Reclaim> choose_reclaim(ReclaimKind kind, std::span<const JobView> jobs, int gpus, int tenants, int nodes,
                                      Rng& rng) {
  switch (kind) {
    case ReclaimKind::random: return by_chance(jobs, rng);
    case ReclaimKind::server: return by_server(jobs, nodes);
    case ReclaimKind::least_loss: break;
    case ReclaimKind::cheapest: break;
  }
  return by_loss(jobs, gpus, tenants, kind == ReclaimKind::cheapest, kAnyNode);
}

std::optional<Reclaim> choose_reclaim_on(int node, std::span<const JobView> jobs, int gpus, int tenants) {
  return by_loss(jobs, gpus, tenants, true, node);
}

}  // namespace tangram::train

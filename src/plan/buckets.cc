// Chooses the edges of buckets by dynamic programming.
//
// A bucket pads every input to its upper edge, so few buckets waste time on padding; many buckets split the load, so
// their batches are small and slow. The cost of a bucket depends only on its edge and its share of inputs, so the best
// set of k buckets up to an edge extends a best set of k - 1 buckets. Cost: O(buckets * edges^2), with at most a few
// dozen edges, plus one evaluation of the cost for each pair of edges.

#include "plan/buckets.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "plan/detail/tolerance.h"

namespace tangram::plan {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The cumulative share of inputs up to each candidate edge.
std::vector<double> shares_up_to(const std::vector<SizeShare>& sizes, const std::vector<std::int64_t>& edges) {
  std::vector<double> up_to = bucket_shares(sizes, edges);
  for (std::size_t i = 1; i < up_to.size(); ++i) up_to[i] += up_to[i - 1];
  return up_to;
}

// The price of a slice of the kind as its part of a device: the larger of its share of compute and its share of memory
// units, whichever runs out first.
double kind_price(const Problem& problem, const Stock& stock, std::size_t kind) {
  const Geometry& geometry = stock.geometries[stock.kinds[kind].group];
  const double device = problem.options.objective == Objective::price
                            ? problem.fleet.groups[stock.kinds[kind].group].price_per_hour
                            : 1.0;
  const auto& profile = stock.profile(kind);
  const double part = std::max(static_cast<double>(profile.compute_slices) / geometry.compute_slices,
                               static_cast<double>(profile.units) / geometry.units);
  return device * part;
}

}  // namespace

std::vector<std::int64_t> edge_candidates(const std::vector<SizeShare>& sizes) {
  std::vector<std::int64_t> edges{sizes.back().size};
  if (sizes.size() <= kEdgesMax) {
    edges.clear();
    for (const auto& entry : sizes) edges.push_back(entry.size);
    return edges;
  }
  // Half of the candidates follow the distribution of inputs, half the range of sizes: the first are dense where
  // requests are frequent, the second also reach the rare long inputs.
  const std::size_t half = kEdgesMax / 2;
  double done = 0;
  std::size_t next = 1;
  for (const auto& [size, share] : sizes) {
    done += share;
    if (done < static_cast<double>(next) / static_cast<double>(half)) continue;
    edges.push_back(size);
    while (done >= static_cast<double>(next) / static_cast<double>(half)) ++next;
  }
  const double low = static_cast<double>(sizes.front().size);
  const double ratio = math::exp(math::log(static_cast<double>(sizes.back().size) / low + detail::kSumTolerance) /
                                 (static_cast<double>(half) - 1));
  for (double edge = low; edge < static_cast<double>(sizes.back().size) && ratio > 1.0001; edge *= ratio) {
    // Moved up to a size that arrives: an edge between two sizes would only add padding.
    const auto at = std::ranges::lower_bound(sizes, static_cast<std::int64_t>(std::ceil(edge)), {}, &SizeShare::size);
    if (at != sizes.end()) edges.push_back(at->size);
  }
  std::ranges::sort(edges);
  const auto rest = std::ranges::unique(edges);
  edges.erase(rest.begin(), rest.end());
  return edges;
}

std::vector<BucketSet> bucket_sets(const std::vector<SizeShare>& sizes, int buckets_max, const BucketCost& cost) {
  const auto edges = edge_candidates(sizes);
  const auto up_to = shares_up_to(sizes, edges);
  const std::size_t n = edges.size();
  // cost_of[i][j]: one bucket over the candidates i to j, both included; i = 0 begins at the smallest size.
  std::vector<std::vector<double>> cost_of(n + 1, std::vector<double>(n, kInfinite));
  for (std::size_t i = 0; i <= n; ++i) {
    for (std::size_t j = i; j < n; ++j) {
      const double share = up_to[j] - (i == 0 ? 0 : up_to[i - 1]);
      cost_of[i][j] = share <= 0 ? 0 : cost(edges[j], share);
    }
  }
  std::vector<double> best(n, kInfinite);  // Up to candidate j, with the current number of buckets.
  for (std::size_t j = 0; j < n; ++j) best[j] = cost_of[0][j];
  std::vector<std::vector<std::size_t>> from{std::vector<std::size_t>(n, 0)};
  std::vector<BucketSet> sets;
  double least = kInfinite;
  for (int buckets = 1; buckets <= buckets_max; ++buckets) {
    if (buckets > 1) {
      std::vector<double> next(n, kInfinite);
      std::vector<std::size_t> came(n, 0);
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t i = 0; i < j; ++i) {
          const double total = best[i] + cost_of[i + 1][j];
          if (total >= next[j]) continue;
          next[j] = total;
          came[j] = i;
        }
      }
      best = std::move(next);
      from.push_back(std::move(came));
    }
    const double total = best[n - 1];
    // A set with more buckets must be cheaper to be worth its smaller batches.
    if (total >= least * (1 - detail::kSumTolerance) || std::isinf(total)) continue;
    least = total;
    BucketSet set{{}, total};
    // Follow the predecessors back from the largest edge. from[b] belongs to sets of b + 1 buckets.
    for (std::size_t j = n - 1, b = static_cast<std::size_t>(buckets); b-- > 0; j = from[b][j]) {
      set.edges.push_back(edges[j]);
    }
    std::ranges::reverse(set.edges);
    sets.push_back(std::move(set));
  }
  return sets;
}

std::vector<BucketSet> service_bucket_sets(const Problem& problem, const Stock& stock, std::size_t service) {
  const Service& asked = problem.workload.services[service];
  const auto sizes = size_shares(asked);
  const auto& options = problem.options;
  if (options.bucketing == Bucketing::longest || sizes.size() == 1) return {{{sizes.back().size}, 0}};
  if (options.bucketing == Bucketing::fixed) {
    // Edges beyond the first one that holds every input are never used.
    std::vector<std::int64_t> edges;
    for (const std::int64_t edge : options.edges) {
      if (edges.empty() || edges.back() < sizes.back().size) edges.push_back(edge);
    }
    if (edges.empty() || edges.back() < sizes.back().size) edges.push_back(sizes.back().size);
    return {{edges, 0}};
  }
  const double total = planning_rate_per_s(asked) * samples_mean(asked) * options.demand_factor;
  auto sets = bucket_sets(sizes, options.buckets_max, [&](std::int64_t hi, double share) {
    double least = kInfinite;
    for (std::size_t kind = 0; kind < stock.kinds.size(); ++kind) {
      for (int processes = 1; processes <= options.processes_max; ++processes) {
        const auto choice = best_batch(problem, stock, service, kind, processes, hi, total * share);
        if (choice.rate_per_s > 0) {
          least = std::min(least, kind_price(problem, stock, kind) * total * share / choice.rate_per_s);
        }
      }
    }
    return least;
  });
  // If nothing serves the service, return one bucket, so that the explanation can name a size.
  if (sets.empty()) sets.push_back({{sizes.back().size}, kInfinite});
  return sets;
}

}  // namespace tangram::plan

#include "plan/detail/share_pools.h"

#include <algorithm>
#include <limits>
#include <set>

#include "plan/detail/tolerance.h"

namespace tangram::plan::detail {

void SharePools::pool(SharedPlan& plan, double price_least, const PoolSearch& search) const {
  const std::int64_t looks_last = search.looks() + search.looks_max;
  SharedPlan now = plan;
  std::set<std::vector<std::size_t>> tried;
  bool better = true;
  while (better && now.answer.price > price_least * (1 + kSumTolerance)) {
    better = false;
    for (const auto& blocks : pools_to_try(now.blocks)) {
      Partition partition = put_together(now.blocks, blocks);
      if (!tried.insert(partition.back()).second) continue;
      if (std::ssize(tried) > search.pools_max || search.looks() >= looks_last) break;
      if (!search.on_one_kind(partition.back(), costliest_kind(now, blocks))) continue;
      auto found = search.solve(partition, now.answer.price * (1 + 4 * kSumTolerance));
      if (!found || slices_price(*found) >= slices_price(now) * (1 - kSumTolerance)) continue;
      now = std::move(*found);
      better = true;
      break;
    }
  }
  if (now.answer.price < plan.answer.price * (1 - kSumTolerance)) plan = std::move(now);
}

std::vector<std::vector<std::size_t>> SharePools::pools_to_try(const std::vector<const Block*>& blocks) const {
  std::vector<std::size_t> order;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (problem_.queues[blocks[b]->queues[0]].may_share) order.push_back(b);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t b) { return shortest_slo_s(*blocks[b]); });
  std::vector<std::vector<std::size_t>> pools;
  const auto add = [&](std::size_t from, std::size_t to) {
    std::vector<std::size_t> pool;
    // From the longest promise down: what may not share with it is left out.
    for (std::size_t i = to; i-- > from;) {
      const bool fits =
          std::ranges::all_of(pool, [&](std::size_t other) { return may_pool(*blocks[other], *blocks[order[i]]); });
      if (fits) pool.push_back(order[i]);
    }
    if (pool.size() > 1) pools.push_back(std::move(pool));
  };
  for (std::size_t from = 0; from + 2 <= order.size(); ++from) add(from, order.size());
  for (std::size_t to = order.size(); to-- > 2;) add(0, to);
  for (std::size_t from = 1; from + 2 < order.size(); ++from) add(from, from + 2);
  return pools;
}

std::size_t SharePools::costliest_kind(const SharedPlan& plan, const std::vector<std::size_t>& blocks) const {
  std::vector<double> paid(prices_.size(), 0);
  for (const std::size_t b : blocks) {
    for (std::size_t o = 0; o < plan.answer.covers[b].size(); ++o) {
      const std::size_t kind = plan.blocks[b]->cover.offers[o].kind;
      paid[kind] += plan.answer.covers[b][o] * prices_[kind];
    }
  }
  return static_cast<std::size_t>(std::ranges::max_element(paid) - paid.begin());
}

Partition SharePools::put_together(const std::vector<const Block*>& blocks, const std::vector<std::size_t>& together) {
  Partition partition;
  std::vector<std::size_t> pool;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const auto& queues = blocks[b]->queues;
    if (std::ranges::find(together, b) == together.end()) {
      partition.push_back(queues);
    } else {
      pool.insert(pool.end(), queues.begin(), queues.end());
    }
  }
  std::ranges::sort(pool);
  partition.push_back(std::move(pool));
  return partition;
}

bool SharePools::may_pool(const Block& a, const Block& b) const {
  return std::ranges::all_of(a.queues, [&](std::size_t first) {
    return std::ranges::all_of(b.queues, [&](std::size_t second) { return may_share_block(problem_, first, second); });
  });
}

double SharePools::shortest_slo_s(const Block& block) const {
  double shortest = std::numeric_limits<double>::infinity();
  for (const std::size_t q : block.queues) {
    shortest = std::min(shortest, to_seconds(problem_.problem.workload.services[q].slo.latency));
  }
  return shortest;
}

double SharePools::slices_price(const SharedPlan& plan) const {
  double sum = 0;
  for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
    for (std::size_t o = 0; o < plan.answer.covers[b].size(); ++o) {
      sum += plan.answer.covers[b][o] * prices_[plan.blocks[b]->cover.offers[o].kind];
    }
  }
  return sum;
}

}  // namespace tangram::plan::detail

// The guess is asked for every queue that might be added, a simulation only for what a slice ends up with.

#include "plan/detail/share_packing.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tangram::plan::detail {
namespace {

// Queues on a slice. The rarest of many takes long to be seen often enough in a simulation of all of them.
constexpr std::size_t kPackedQueues = 20;
// Queues that do not fit, one after the other, before a slice counts as full.
constexpr int kMissesMax = 200;

// All queues, the highest value first.
template <typename Value>
std::vector<std::size_t> ordered_by(std::size_t queues, const Value& value) {
  std::vector<std::size_t> order(queues);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>{}, value);
  return order;
}

std::vector<std::size_t> beginning_of(const std::vector<std::size_t>& queues, std::size_t count) {
  return {queues.begin(), queues.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

SharePacking::SharePacking(const QueueProblem& problem, const std::vector<Demand>& demands, Holds holds)
    : problem_(problem), demands_(demands), holds_(std::move(holds)) {
  for (std::size_t q = 0; q < size(); ++q) {
    loads_.emplace_back();
    for (std::size_t kind = 0; kind < kinds(); ++kind) {
      loads_.back().push_back(queue_load(problem_, demands_[q], q, kind));
    }
  }
}

std::optional<std::vector<double>> SharePacking::fits(const std::vector<std::size_t>& queues,
                                                      const std::vector<QueueLoad>& loads, std::size_t kind) const {
  std::vector<const Demand*> demands;
  double working = 0;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    demands.push_back(&demands_[queues[i]]);
    working = std::max(working, loads[i].working_mib);
  }
  return loads_that_fit(problem_, queues, demands, kind, working);
}

PackedSlices SharePacking::fill(std::size_t first, std::size_t kind, int count, const std::vector<std::size_t>& order,
                                const std::vector<bool>& done, const std::vector<double>& queue_price) const {
  PackedSlices packed{{first}, kind, count, queue_price[first]};
  std::vector<QueueLoad> loads{loads_[first][kind]};
  if (!loads[0].runs || !fits(packed.queues, loads, kind)) return {};
  if (!likely_holds(problem_, packed.queues, loads, count)) return {};
  int misses = 0;
  for (const std::size_t q : order) {
    if (done[q] || q == first) continue;
    if (++misses > kMissesMax || (size() <= kQueuesPatterns && packed.queues.size() >= kPackedQueues)) break;
    if (!std::ranges::all_of(packed.queues, [&](std::size_t other) { return may_share_block(problem_, other, q); })) {
      continue;
    }
    const QueueLoad& load = loads_[q][kind];
    if (!load.runs) continue;
    packed.queues.push_back(q);
    loads.push_back(load);
    const auto on_demand = fits(packed.queues, loads, kind);
    if (!on_demand || !likely_holds(problem_, packed.queues, with_loading(loads, *on_demand), count)) {
      packed.queues.pop_back();
      loads.pop_back();
      continue;
    }
    packed.worth += queue_price[q];
    misses = 0;
  }
  return packed;
}

std::vector<std::size_t> SharePacking::longest_that_holds(const PackedSlices& packed) const {
  const auto holds_first = [&](std::size_t count) {
    return holds_(beginning_of(packed.queues, count), packed.kind, packed.count);
  };
  if (holds_first(packed.queues.size())) return packed.queues;
  std::size_t yes = 1;
  std::size_t no = packed.queues.size();
  while (no - yes > 1) {
    const std::size_t middle = (yes + no) / 2;
    (holds_first(middle) ? yes : no) = middle;
  }
  return beginning_of(packed.queues, yes);
}

std::vector<Candidate> SharePacking::one_by_one(const ShareBound& bound, const std::vector<double>& kind_price) const {
  const auto order = ordered_by(size(), [&](std::size_t q) { return bound.queue_price[q]; });
  std::vector<bool> done(size(), false);
  std::vector<Candidate> blocks;
  for (const std::size_t first : order) {
    if (done[first]) continue;
    PackedSlices best{{first}, 0, 1, 0};
    double best_worth = 0;
    for (std::size_t kind = 0; kind < kinds() && problem_.queues[first].may_share; ++kind) {
      const PackedSlices packed = fill(first, kind, 1, order, done, bound.queue_price);
      const double price = std::max(bound.kind_price[kind], 0.5 * kind_price[kind]);
      if (packed.queues.empty() || packed.worth / price <= best_worth) continue;
      best_worth = packed.worth / price;
      best = packed;
    }
    Candidate block{best.queues, best.kind, 0, std::vector<int>(kinds(), 0)};
    if (best.queues.size() > 1) block.queues = longest_that_holds(best);
    if (block.queues.size() > 1) block.count = block.slices[best.kind] = 1;
    for (const std::size_t q : block.queues) done[q] = true;
    blocks.push_back(std::move(block));
  }
  return blocks;
}

std::vector<Candidate> SharePacking::candidates_alone(const PlanAnswer& alone) const {
  std::vector<Candidate> candidates;
  for (std::size_t q = 0; q < size() && alone.status == PlanStatus::planned; ++q) {
    if (problem_.queues[q].members.size() > 1) continue;
    Candidate candidate{{q}, 0, 0, std::vector<int>(kinds(), 0)};
    for (const auto& group : alone.services[problem_.queues[q].members[0]].groups) {
      for (std::size_t kind = 0; kind < kinds(); ++kind) {
        if (problem_.stock.type(kind) != group.device_type) continue;
        if (problem_.stock.profile(kind).name == group.mig_profile) candidate.slices[kind] += group.count;
      }
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

bool SharePacking::is_one_service(const std::vector<std::size_t>& queues) const {
  return queues.size() == 1 && problem_.queues[queues[0]].members.size() == 1;
}

bool SharePacking::add_candidates_of(std::size_t kind, int count, const std::vector<std::size_t>& firsts,
                                     const std::vector<std::size_t>& order, const ChoicePrices& prices, Known& known,
                                     std::vector<Candidate>& candidates) const {
  const std::vector<bool> done(size(), false);
  bool fresh = false;
  for (const std::size_t first : firsts) {
    if (!problem_.queues[first].may_share) continue;
    const PackedSlices packed = fill(first, kind, count, order, done, prices.queue);
    if (packed.queues.empty() || packed.worth <= count * prices.kind[kind] * (1 + 1e-6)) continue;
    if (is_one_service(packed.queues)) continue;
    std::vector<std::size_t> key = packed.queues;
    std::ranges::sort(key);
    key.push_back(kind);
    key.push_back(static_cast<std::size_t>(count));
    if (!known.insert(key).second) continue;
    fresh = true;
    candidates.push_back({packed.queues, kind, count, std::vector<int>(kinds(), 0)});
    candidates.back().slices[kind] = count;
  }
  return fresh;
}

bool SharePacking::add_candidates(const ChoicePrices& prices, Known& known, std::vector<Candidate>& candidates) const {
  constexpr int kSlicesMax = 4;
  bool fresh = false;
  for (std::size_t kind = 0; kind < kinds(); ++kind) {
    const auto by_price = ordered_by(size(), [&](std::size_t q) { return prices.queue[q]; });
    // What a queue is worth for the time that it takes.
    const auto by_density = ordered_by(size(), [&](std::size_t q) {
      const QueueLoad& load = loads_[q][kind];
      return prices.queue[q] / (0.01 + load.rate_per_s * load.run_s);
    });
    for (int count = 1; count <= kSlicesMax; ++count) {
      const Geometry& geometry = problem_.stock.geometries[problem_.stock.kinds[kind].group];
      if (count > 1 && count * problem_.stock.profile(kind).units > geometry.units) break;
      for (const auto* order : {&by_price, &by_density}) {
        fresh = add_candidates_of(kind, count, by_price, *order, prices, known, candidates) || fresh;
      }
    }
  }
  return fresh;
}

bool SharePacking::verified(const Candidate& candidate, Candidate& shorter) const {
  if (candidate.count == 0) return true;  // As it is in the plan without sharing.
  shorter = candidate;
  shorter.queues = longest_that_holds({candidate.queues, candidate.kind, candidate.count, 0});
  return shorter.queues.size() == candidate.queues.size();
}

std::vector<Candidate> SharePacking::cheapest_choice(const PlanAnswer& alone, const CoverProblem& devices) const {
  constexpr int kRoundsPrices = 8;
  constexpr int kRoundsChoice = 4;
  auto candidates = candidates_alone(alone);
  Known known;
  // At first every queue is worth a slice.
  ChoicePrices prices{std::vector<double>(size(), 1), std::vector<double>(kinds(), 0)};
  for (int round = 0; round < kRoundsPrices; ++round) {
    if (!add_candidates(prices, known, candidates)) break;
    const auto next = choice_prices(candidates, size(), devices);
    if (!next) break;
    prices = *next;
  }
  std::vector<Candidate> best;
  for (int round = 0; round < kRoundsChoice; ++round) {
    const auto choice = choose(candidates, size(), devices);
    if (!choice) break;
    best.clear();
    std::vector<std::size_t> broken;
    std::vector<Candidate> shorter;
    for (const std::size_t c : *choice) {
      Candidate less;
      if (verified(candidates[c], less)) {
        best.push_back(candidates[c]);
        continue;
      }
      broken.push_back(c);
      shorter.push_back(less);
      best.push_back(std::move(less));
    }
    if (broken.empty()) break;
    for (auto c = broken.rbegin(); c != broken.rend(); ++c) {
      candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(*c));
    }
    for (auto& less : shorter) {
      if (!is_one_service(less.queues)) candidates.push_back(std::move(less));
    }
  }
  return best;
}

}  // namespace tangram::plan::detail

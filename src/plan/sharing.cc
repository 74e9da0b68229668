// Chooses blocks, covers them with slices, confirms them, and compares the result with slices of one's own.
//
// The search costs simulations, so it is done only where the bound says that sharing may save something. Where services
// are few, every division into blocks is solved. Where they are many, slices are packed (detail/share_packing.h).
//
// Invariant: every block of the answer was confirmed as a whole, with other random numbers than those of the search.

#include "plan/sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "base/text.h"
#include "plan/compose.h"
#include "plan/detail/acceptance.h"
#include "plan/detail/service_cover.h"
#include "plan/detail/share_bound.h"
#include "plan/detail/share_packing.h"
#include "plan/detail/share_patterns.h"
#include "plan/detail/share_pools.h"
#include "plan/detail/share_queues.h"
#include "plan/detail/tolerance.h"

namespace tangram::plan {
namespace {

using detail::Block;
using detail::Partition;
using detail::QueueProblem;
using detail::SharedPlan;

// Up to this many queues all divisions into blocks are solved: there are 203 of six.
constexpr std::size_t kQueuesExact = 6;
constexpr int kConfirmRoundsMax = 10;
constexpr int kConfirmRoundsExact = 4;

bool all_hold(const std::vector<Verdict>& verdicts) {
  return std::ranges::all_of(verdicts, [](const Verdict& v) { return v.holds; });
}

// The verdict of a block that has the least room; it holds only if all do.
Verdict tightest(const std::vector<Verdict>& verdicts) {
  Verdict least = verdicts[0];
  for (const auto& verdict : verdicts) {
    const bool worse = verdict.holds == least.holds ? verdict.attainment < least.attainment : least.holds;
    if (worse) least = verdict;
  }
  return least;
}

// One class of more than 30 functions, because every step of the search reads and narrows the same state: the best
// plan, its bound, the verdicts known so far and the work that is left. What needs none of it is in plan/detail.
class SharingSearch {
 public:
  explicit SharingSearch(const Problem& problem, detail::BucketChoice buckets = detail::BucketChoice::fewest)
      : problem_(problem),
        queues_(detail::queue_problem(problem)),
        model_(cover_model(problem, queues_.stock, {})),
        prices_(even_prices(model_.problem)),
        demands_(detail::queue_demands(queues_, buckets)),
        bound_queues_(detail::with_loosest_promises(problem, queues_)),
        bound_demands_(detail::mixes_promises(problem, queues_) ? again(bound_queues_, demands_) : demands_),
        packing_(queues_, demands_, [this](const std::vector<std::size_t>& members, std::size_t kind, int count) {
          return hold_on(members, kind, count);
        }) {}
  // Its parts refer to each other.
  SharingSearch(const SharingSearch&) = delete;
  SharingSearch& operator=(const SharingSearch&) = delete;

  // Counts the confirmations of a search through the same queues as if this one had made them: what is tried is tried.
  void continue_after(const SharingSearch& other) { confirmations_ = other.confirmations_; }

  std::size_t size() const { return queues_.queues.size(); }
  const QueueProblem& queues() const { return queues_; }
  bool batches_apart() const { return problem_.options.promises_apart; }
  const std::vector<Demand>& demands() const { return demands_; }
  std::int64_t asked() const { return asked_; }

  detail::ShareBound bound() const { return detail::share_bound(bound_queues_, model_.problem, bound_demands_); }

  // A higher bound, which knows what single slices can hold; 0 if the queues are too many for it. With `waiting` it
  // also counts who would be late, which takes simulations.
  double pattern_bound(double price_enough, bool waiting) {
    if (size() > detail::kQueuesPatterns) return 0;
    queues_.on_demand = bound_queues_.on_demand = true;
    detail::PatternOptions options;
    options.compatible = [this](std::size_t a, std::size_t b) { return detail::may_share_block(queues_, a, b); };
    options.blocking = waiting && problem_.options.rule == Rule::certified;
    if (options.blocking) {
      options.breaks_alone = [this](std::size_t q, std::size_t kind) { return breaks_alone(q, kind); };
    }
    options.price_enough = price_enough;
    return detail::pattern_bound(bound_queues_, problem_.workload.services, model_.problem, bound_demands_, options);
  }

  // The best plan that the search finds below `price_max`; nothing if there is none. Stops at `price_least`.
  std::optional<SharedPlan> search(const detail::ShareBound& bound, const PlanAnswer& alone, double price_max,
                                   double price_least) {
    auto best = search_one_way(bound, alone, price_max, price_least, false);
    if (best) price_max = best->answer.price;
    if (price_max <= price_least * (1 + detail::kSumTolerance) || !some_may_load_on_demand()) return best;
    // A model on demand has latencies that one which stays loaded does not have, so it has to save something.
    auto on_demand = search_one_way(bound, alone, price_max, price_least, true);
    if (!on_demand) return best;
    if (size() <= detail::kQueuesPatterns) spread(*on_demand);
    return on_demand;
  }

  // The same, with all models loaded, or with those on demand that do not fit.
  std::optional<SharedPlan> search_one_way(const detail::ShareBound& bound, const PlanAnswer& alone, double price_max,
                                           double price_least, bool on_demand) {
    queues_.on_demand = on_demand;
    std::optional<SharedPlan> best;
    const auto try_partition = [&](const Partition& partition) {
      auto found = solve(partition, price_max);
      if (!found || found->answer.price >= price_max * (1 - detail::kSumTolerance)) return false;
      price_max = found->answer.price;
      best = std::move(found);
      return price_max <= price_least * (1 + detail::kSumTolerance);
    };
    if (size() <= kQueuesExact) {
      Partition partition;
      every_partition(0, partition, try_partition);
      return best;
    }
    // Packing takes the fewest simulations. A choice among candidates often saves a device more.
    if (!try_partition(partition_of(packing_.one_by_one(bound, prices_))) && size() <= detail::kQueuesPatterns) {
      try_partition(partition_of(packing_.cheapest_choice(alone, model_.problem)));
    }
    if (size() > detail::kQueuesPatterns) return best;
    // Where no packing saved anything, from slices of one's own.
    if (!best && !on_demand) {
      auto apart = solve(partition_of({}), price_max * (1 + 4 * detail::kSumTolerance));
      if (!apart) return best;
      pool(*apart, price_least);
      if (apart->answer.price < price_max * (1 - detail::kSumTolerance)) best = std::move(apart);
    } else if (best) {
      pool(*best, price_least);
    }
    return best;
  }

  // The plan, laid out, in the terms of the problem.
  PlanAnswer answer_of(const SharedPlan& shared) const {
    PlanAnswer answer;
    answer.status = PlanStatus::planned;
    SliceReplicas wanted(queues_.stock.kinds.size());
    answer.services.resize(problem_.workload.services.size());
    for (std::size_t b = 0; b < shared.blocks.size(); ++b) {
      const Block& block = *shared.blocks[b];
      const Cover& cover = shared.answer.covers[b];
      for (std::size_t o = 0; o < cover.size(); ++o) {
        const auto replicas = replicas_of(block, o);
        for (int n = 0; n < cover[o]; ++n) wanted[block.cover.offers[o].kind].push_back(replicas);
      }
      describe(shared, b, answer);
      for (std::size_t o = 0; o < cover.size(); ++o) {
        if (cover[o] == 0 || !block.shares(queues_)) continue;
        if (auto note = detail::note_on_demand(queues_, problem_.workload, block, o)) answer.notes.push_back(*note);
      }
    }
    answer.plan = lay_out(problem_, queues_.stock, model_, shared.answer.cuts, wanted);
    answer.devices = static_cast<int>(answer.plan.devices.size());
    answer.price = shared.answer.price;
    return answer;
  }

 private:
  // What the queues of another problem ask of slices with the same buckets.
  static std::vector<Demand> again(const QueueProblem& queues, const std::vector<Demand>& demands) {
    std::vector<Demand> result;
    for (std::size_t q = 0; q < demands.size(); ++q) {
      result.push_back(demands[q].edges.empty() ? demands[q]
                                                : make_demand(queues.problem, queues.stock, q, demands[q].edges));
    }
    return result;
  }

  bool some_may_load_on_demand() {
    queues_.on_demand = true;
    for (std::size_t q = 0; q < size(); ++q) {
      for (std::size_t kind = 0; kind < queues_.stock.kinds.size(); ++kind) {
        if (detail::on_demand_s(queues_, q, demands_[q], kind)) return true;
      }
    }
    return false;
  }

  const Service& service(std::size_t s) const { return problem_.workload.services[s]; }

  // Whether a queue certainly breaks its promise if it has one slice of the kind to itself. A neighbour only makes it
  // worse. A verdict that is too close to call does not count.
  bool breaks_alone(std::size_t q, std::size_t kind) {
    Service asked = queues_.problem.workload.services[q];
    if (asked.job || asked.size_drift) return false;
    const auto& members = queues_.queues[q].members;
    for (const std::size_t member : members) {
      const bool random = std::holds_alternative<PoissonTraffic>(service(member).traffic);
      if (members.size() > 1 && !random) return false;
      // Of several, the loosest promise for all.
      asked.slo.latency = std::max(asked.slo.latency, service(member).slo.latency);
      asked.slo.percentile = std::min(asked.slo.percentile, service(member).slo.percentile);
      asked.slo.window_s = std::min(asked.slo.window_s, service(member).slo.window_s);
    }
    for (const auto& offer : bound_demands_[q].offers) {
      if (offer.kind != kind) continue;
      ++asked_;
      const ReplicaGroup group = replica_group(queues_.problem, queues_.stock, demands_[q], offer, 1);
      const Verdict verdict = problem_.certifier->certify(asked, {&group, 1}, false);
      if (verdict.holds || verdict.too_close || verdict.attainment_high >= asked.slo.percentile / 100) return false;
    }
    return true;
  }

  // The block of these queues, made once; null if no slice can hold them together.
  Block* block_of(std::vector<std::size_t> members) {
    std::ranges::sort(members);
    const auto [found, fresh] = blocks_.try_emplace({members, queues_.on_demand});
    if (!fresh) return found->second.get();
    auto block = std::make_unique<Block>();
    block->queues = members;
    for (const std::size_t q : members) block->demands.push_back(demands_[q]);
    if (!block->shares(queues_)) {
      block->demands = {choose_demand(queues_.problem, queues_.stock, members[0], prices_, &asked_)};
      block->cover = cover_service(block->demands[0]);
    } else {
      block->offers = detail::shared_offers(queues_, members, block->demands);
      for (const auto& demand : block->demands) {
        block->cover.demand.insert(block->cover.demand.end(), demand.rate_per_s.begin(), demand.rate_per_s.end());
      }
      for (const auto& offer : block->offers) {
        CoverOffer cover{offer.kind, {}};
        for (const auto& run : offer.runs)
          cover.rate.insert(cover.rate.end(), run.rate_per_s.begin(), run.rate_per_s.end());
        block->cover.offers.push_back(std::move(cover));
      }
      const detail::ServiceCovers covers(block->cover);
      if (block->offers.empty() || !covers.coverable()) block.reset();
    }
    found->second = std::move(block);
    return found->second.get();
  }

  // The services of a block, by queue and member.
  std::vector<std::size_t> services_of(const Block& block) const {
    std::vector<std::size_t> services;
    for (const std::size_t q : block.queues) {
      services.insert(services.end(), queues_.queues[q].members.begin(), queues_.queues[q].members.end());
    }
    return services;
  }

  // What each slice of an offer holds.
  std::vector<Replica> replicas_of(const Block& block, std::size_t offer) const {
    if (!block.shares(queues_)) {
      return {
          replica_group(queues_.problem, queues_.stock, block.demands[0], block.demands[0].offers[offer], 1).replica};
    }
    std::vector<Replica> replicas;
    for (std::size_t i = 0; i < block.queues.size(); ++i) {
      const auto& run = block.offers[offer].runs[i];
      std::vector<PlannedBucket> buckets;
      for (std::size_t b = 0; b < run.batch.size(); ++b) {
        if (run.batch[b] > 0) buckets.push_back({block.demands[i].edges[b], run.batch[b]});
      }
      for (const std::size_t member : queues_.queues[block.queues[i]].members) {
        Replica replica{.service = service(member).name, .buckets = buckets};
        if (run.load_s > 0) replica.load = ReplicaLoad::on_demand;
        const bool loop = std::holds_alternative<ClosedLoopTraffic>(service(member).traffic);
        if (!loop) replica.rate_max_per_s = problem_.options.demand_factor * neighbour_rate_per_s(service(member));
        replicas.push_back(std::move(replica));
      }
    }
    return replicas;
  }

  std::vector<Verdict> certify(const Block& block, const Cover& cover, bool confirm) {
    ++asked_;
    std::vector<Service> services;
    for (const std::size_t s : services_of(block)) services.push_back(service(s));
    std::vector<SharedGroup> groups;
    for (std::size_t o = 0; o < cover.size(); ++o) {
      if (cover[o] == 0) continue;
      const std::size_t kind = block.offers[o].kind;
      groups.push_back({queues_.stock.type(kind), queues_.stock.profile(kind).name,
                        queues_.stock.profile(kind).compute_slices, replicas_of(block, o), cover[o]});
    }
    return problem_.certifier->certify_together(services, groups, confirm);
  }

  // True for one slice that is smaller than the one for which the block was packed: it is not worth a simulation.
  bool smaller_than_packed(const Block& block, const Cover& cover) const {
    std::size_t units = 0;
    for (std::size_t o = 0; o < cover.size(); ++o) {
      units += static_cast<std::size_t>(cover[o]) * queues_.stock.units(block.cover.offers[o].kind);
    }
    return units < block.units_least;
  }

  // The quick test, for covers of one kind.
  bool surely_holds(const Block& block, const Cover& cover) const {
    if (std::ranges::count_if(cover, [](int n) { return n > 0; }) != 1) return false;
    const auto o = static_cast<std::size_t>(std::ranges::find_if(cover, [](int n) { return n > 0; }) - cover.begin());
    return detail::surely_holds(problem_, queues_, block, o, cover[o]);
  }

  // Whether a block that shares keeps all promises on a cover: by the quick test, or else by a look.
  bool holds(const Block& block, const Cover& cover) {
    if (problem_.options.rule != Rule::certified || surely_holds(block, cover)) return true;
    return all_hold(certify(block, cover, false));
  }

  // The same for queues that would share slices of one kind. One queue by itself is left to the solver.
  bool hold_on(const std::vector<std::size_t>& members, std::size_t kind, int count) {
    const Block* block = block_of(members);
    if (block == nullptr || !block->shares(queues_)) return members.size() == 1;
    const auto offer = std::ranges::find(block->offers, kind, &detail::SharedOffer::kind);
    if (offer == block->offers.end()) return false;
    Cover cover(block->offers.size(), 0);
    cover[static_cast<std::size_t>(offer - block->offers.begin())] = count;
    return cover_load_factor(block->cover, cover) >= 1 && holds(*block, cover);
  }

  // ---- One division into blocks ----

  detail::Acceptance acceptance_of(const Block& block) {
    if (!block.shares(queues_)) return {queues_.problem, queues_.stock, block.demands[0]};
    return {problem_, block.cover, [this, &block](const Cover& cover, bool confirm) {
              if (!confirm && smaller_than_packed(block, cover)) return Verdict{};
              if (!confirm && surely_holds(block, cover)) return Verdict{.holds = true, .attainment = 1};
              const auto verdicts = certify(block, cover, confirm);
              const Verdict least = tightest(verdicts);
              const auto at = std::ranges::find_if(verdicts, [&](const Verdict& v) {
                return v.holds == least.holds && v.attainment == least.attainment;
              });
              tightest_in_[{&block, cover}] = static_cast<std::size_t>(at - verdicts.begin());
              return least;
            }};
  }

  std::vector<Verdict> confirm(const Block& block, const detail::Acceptance& acceptance, const Cover& cover) {
    if (!block.shares(queues_)) return {acceptance.certify(cover, true)};
    return certify(block, cover, true);
  }

  // A certificate's error is divided among ten confirmations. A search through many divisions could ask for more until
  // something passes by luck, so each queue has ten in all.
  bool may_confirm(const Block& block, const Cover& cover) {
    if (!confirmed_.emplace(&block, cover).second) return true;  // It has the answer that it had before.
    confirmations_.resize(size(), 0);
    bool all = true;
    for (const std::size_t q : block.queues) all = ++confirmations_[q] <= kConfirmRoundsMax && all;
    return all;
  }

  // The cheapest covers of all blocks that were confirmed. Nothing if some block has none, if it costs `price_max` or
  // more even before it is confirmed, or if the confirmations never end.
  std::optional<SharedPlan> solve(const Partition& partition, double price_max) {
    SharedPlan plan;
    CoverProblem cover = model_.problem;
    std::vector<detail::Acceptance> acceptances;
    for (const auto& members : partition) {
      const Block* block = block_of(members);
      if (block == nullptr) return std::nullopt;
      plan.blocks.push_back(block);
      acceptances.push_back(acceptance_of(*block));
      cover.services.push_back(block->cover);
    }
    if (price_by_capacity(cover) >= price_max * (1 - detail::kSumTolerance)) return std::nullopt;
    const bool certified = problem_.options.rule == Rule::certified;
    for (std::size_t b = 0; b < acceptances.size(); ++b) {
      if (!certified && plan.blocks[b]->demands[0].other_rate_per_s.empty()) continue;
      cover.services[b].accepts = [&acceptances, b](const Cover& c) { return acceptances[b].accepts(c); };
    }
    for (int round = 0; round < kConfirmRoundsMax; ++round) {
      plan.answer = solve_cover(cover, problem_.budget);
      if (plan.answer.status != CoverStatus::solved) return std::nullopt;
      if (plan.answer.price >= price_max * (1 - detail::kSumTolerance)) return std::nullopt;
      plan.verdicts.assign(acceptances.size(), {});
      if (!certified) return plan;
      bool all = true;
      for (std::size_t b = 0; b < acceptances.size(); ++b) {
        if (!may_confirm(*plan.blocks[b], plan.answer.covers[b])) return std::nullopt;
        plan.verdicts[b] = confirm(*plan.blocks[b], acceptances[b], plan.answer.covers[b]);
        if (all_hold(plan.verdicts[b])) continue;
        all = false;
        acceptances[b].refute(plan.answer.covers[b]);
        if (round + 1 >= kConfirmRoundsExact) acceptances[b].ask_more_than(plan.answer.covers[b]);
      }
      if (!all) continue;
      const auto prices = plan.answer.kind_price.empty() ? prices_ : plan.answer.kind_price;
      for (std::size_t b = 0; b < acceptances.size(); ++b) {
        plan.nearest.push_back(acceptances[b].nearest_cover(plan.answer.covers[b], prices));
      }
      return plan;
    }
    return std::nullopt;
  }

  // A lower bound: the same blocks without waiting.
  double price_by_capacity(const CoverProblem& cover) const {
    CoverBudget budget = problem_.budget;
    budget.progress = {};
    const auto answer = solve_cover(cover, budget);
    return answer.status == CoverStatus::solved ? answer.bound : std::numeric_limits<double>::infinity();
  }

  // ---- Fewer models on demand at the same price ----

  // The queues of a block whose copies are loaded on demand on some of its slices.
  std::vector<std::size_t> on_demand_in(const SharedPlan& plan, std::size_t b) const {
    std::vector<std::size_t> queues;
    const Block& block = *plan.blocks[b];
    for (std::size_t i = 0; i < block.queues.size() && block.shares(queues_); ++i) {
      for (std::size_t o = 0; o < block.offers.size(); ++o) {
        if (plan.answer.covers[b][o] == 0 || block.offers[o].runs[i].load_s <= 0) continue;
        queues.push_back(block.queues[i]);
        break;
      }
    }
    return queues;
  }

  // The search fills one slice with models on demand and leaves others of the device empty: few blocks come first.
  // Divides such blocks, those with most on demand first, as long as that costs nothing and loads no more on demand.
  void spread(SharedPlan& plan) {
    constexpr int kTriesMax = 12;
    std::set<std::vector<std::size_t>> tried;
    for (int tries = 0; tries < kTriesMax; ++tries) {
      std::size_t on_demand = 0;
      std::size_t widest = plan.blocks.size();
      std::vector<std::size_t> apart;
      for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
        const auto queues = on_demand_in(plan, b);
        on_demand += queues.size();
        if (plan.blocks[b]->queues.size() < 2 || queues.size() <= apart.size()) continue;
        if (tried.contains(plan.blocks[b]->queues)) continue;
        widest = b;
        apart = queues;
      }
      if (apart.empty()) return;
      tried.insert(plan.blocks[widest]->queues);
      auto found = solve(divided(plan, widest, apart), plan.answer.price * (1 + 4 * detail::kSumTolerance));
      if (!found) continue;
      std::size_t then = 0;
      for (std::size_t b = 0; b < found->blocks.size(); ++b) then += on_demand_in(*found, b).size();
      // As many in smaller blocks are better, too: fewer take turns on one slice, and the next division may free some.
      if (then <= on_demand) plan = std::move(*found);
    }
  }

  // ---- Blocks that share all of their slices ----

  void pool(SharedPlan& plan, double price_least) {
    const detail::SharePools pools(queues_, prices_);
    pools.pool(plan, price_least,
               {.pools_max = problem_.budget.pools_max,
                .looks_max = problem_.budget.pool_looks_max,
                .looks = [this] { return asked_; },
                .on_one_kind = [this](const std::vector<std::size_t>& members,
                                      std::size_t kind) { return on_one_kind(members, kind); },
                .solve = [this](const Partition& partition, double price_max) { return solve(partition, price_max); }});
  }

  // Makes the block of these queues with slices of one kind only: a large block has very many covers of several kinds.
  // False if it has no such slice.
  bool on_one_kind(const std::vector<std::size_t>& members, std::size_t kind) {
    const bool known = blocks_.contains({members, queues_.on_demand});
    Block* block = block_of(members);
    if (block == nullptr || known) return block != nullptr;
    const bool offered =
        std::ranges::any_of(block->cover.offers, [&](const CoverOffer& offer) { return offer.kind == kind; });
    if (!offered) return false;
    std::erase_if(block->offers, [&](const detail::SharedOffer& offer) { return offer.kind != kind; });
    std::erase_if(block->cover.offers, [&](const CoverOffer& offer) { return offer.kind != kind; });
    return detail::ServiceCovers(block->cover).coverable();
  }

  // The blocks of a plan with those queues of one in a block of their own; with half of them if that were all.
  static Partition divided(const SharedPlan& plan, std::size_t divide, std::vector<std::size_t> apart) {
    Partition partition;
    for (const auto* block : plan.blocks) partition.push_back(block->queues);
    if (apart.size() == partition[divide].size()) apart.resize(apart.size() / 2);
    std::erase_if(partition[divide], [&](std::size_t q) { return std::ranges::find(apart, q) != apart.end(); });
    partition.push_back(std::move(apart));
    return partition;
  }

  // ---- Divisions into blocks ----

  // Each queue in one block: in the first of the candidates that has it.
  Partition partition_of(const std::vector<detail::Candidate>& candidates) {
    std::vector<bool> done(size(), false);
    Partition partition;
    for (const auto& candidate : candidates) {
      std::vector<std::size_t> members;
      for (const std::size_t q : candidate.queues) {
        if (!done[q]) members.push_back(q);
        done[q] = true;
      }
      if (members.empty()) continue;
      Block* block = candidate.count > 0 ? block_of(members) : nullptr;
      if (block != nullptr) {
        block->units_least = static_cast<std::size_t>(candidate.count) * queues_.stock.units(candidate.kind);
      }
      partition.push_back(std::move(members));
    }
    for (std::size_t q = 0; q < size(); ++q) {
      if (!done[q]) partition.push_back({q});
    }
    return partition;
  }

  // Visits every division of the queues from `q` on; `visit` returns true to stop. Few blocks come first: they save
  // most.
  template <typename Visit>
  bool every_partition(std::size_t q, Partition& partition, const Visit& visit) {
    if (q == size()) return visit(partition);
    for (std::size_t b = 0; b < partition.size(); ++b) {
      const bool fits = std::ranges::all_of(
          partition[b], [&](std::size_t other) { return detail::may_share_block(queues_, other, q); });
      if (!fits) continue;
      partition[b].push_back(q);
      const bool stop = every_partition(q + 1, partition, visit);
      partition[b].pop_back();
      if (stop) return true;
    }
    partition.push_back({q});
    const bool stop = every_partition(q + 1, partition, visit);
    partition.pop_back();
    return stop;
  }

  // ---- The answer ----

  void describe(const SharedPlan& shared, std::size_t b, PlanAnswer& answer) const {
    const Block& block = *shared.blocks[b];
    const Cover& cover = shared.answer.covers[b];
    const auto services = services_of(block);
    const double factor = cover_load_factor(block.cover, cover);
    for (std::size_t i = 0; i < services.size(); ++i) {
      ServicePlan& plan = answer.services[services[i]];
      plan.service = service(services[i]).name;
      plan.rate_per_s = planning_rate_per_s(service(services[i])) * samples_mean(service(services[i]));
      plan.load_factor = factor;
      for (std::size_t o = 0; o < cover.size(); ++o) {
        if (cover[o] == 0) continue;
        const std::size_t kind = block.cover.offers[o].kind;
        for (const auto& replica : replicas_of(block, o)) {
          if (replica.service != plan.service) continue;
          plan.groups.push_back({queues_.stock.type(kind), queues_.stock.profile(kind).name,
                                 queues_.stock.profile(kind).compute_slices, replica, cover[o]});
          for (const auto& bucket : replica.buckets) plan.edges.push_back(bucket.size_max);
        }
      }
      std::ranges::sort(plan.edges);
      plan.edges.erase(std::unique(plan.edges.begin(), plan.edges.end()), plan.edges.end());
      if (b < shared.answer.service_price.size()) {
        plan.price = shared.answer.service_price[b] / static_cast<double>(services.size());
      }
      if (i < shared.verdicts[b].size()) plan.verdict = shared.verdicts[b][i];
      describe_nearest(shared, b, i, plan);
      for (const std::size_t other : services) {
        if (other != services[i]) plan.shares_with.push_back(service(other).name);
      }
    }
  }

  // Of a block, the service whose promise failed on cheaper slices: it would be the first to need slices of its own.
  void describe_nearest(const SharedPlan& shared, std::size_t b, std::size_t member, ServicePlan& plan) const {
    if (b >= shared.nearest.size() || !shared.nearest[b]) return;
    const Block& block = *shared.blocks[b];
    const auto& [cover, verdict] = *shared.nearest[b];
    const auto failed = tightest_in_.find({&block, cover});
    if (block.shares(queues_) && (failed == tightest_in_.end() || failed->second != member)) return;
    NearestCover nearest{{}, verdict};
    for (std::size_t o = 0; o < cover.size(); ++o) {
      if (cover[o] == 0) continue;
      const std::size_t kind = block.cover.offers[o].kind;
      for (const auto& replica : replicas_of(block, o)) {
        if (replica.service != plan.service) continue;
        nearest.groups.push_back({queues_.stock.type(kind), queues_.stock.profile(kind).name,
                                  queues_.stock.profile(kind).compute_slices, replica, cover[o]});
      }
    }
    plan.nearest = std::move(nearest);
  }

  const Problem& problem_;
  QueueProblem queues_;
  CoverModel model_;
  std::vector<double> prices_;
  std::vector<Demand> demands_;  // By queue.
  // The same where members of a queue have different promises, each under the loosest: bounds are about all plans.
  QueueProblem bound_queues_;
  std::vector<Demand> bound_demands_;
  detail::SharePacking packing_;
  // By members, and whether models may be loaded on demand.
  std::map<std::pair<std::vector<std::size_t>, bool>, std::unique_ptr<Block>> blocks_;
  // By block and cover: the service, among those of the block, with the least room.
  std::map<std::pair<const Block*, Cover>, std::size_t> tightest_in_;
  std::set<std::pair<const Block*, Cover>> confirmed_;  // Asked about, whatever the answer was.
  std::vector<int> confirmations_;                      // By queue.
  std::int64_t asked_ = 0;
};

// The least price that a plan can have above a bound: devices are whole. Of devices with different prices, any sum may
// do.
double least_price(const Problem& problem, double bound) {
  double each = 1;
  if (problem.options.objective == Objective::price) {
    each = problem.fleet.groups.front().price_per_hour;
    for (const auto& group : problem.fleet.groups) {
      if (group.price_per_hour != each || each <= 0) return bound;
    }
  }
  return each * std::ceil(bound / each - detail::kBoundTolerance);
}

// Where the plan is not proved best, a bound that knows more about slices may do it. Says what the higher bound is due
// to: waiting if it is lower without it.
void raise_bound(const Problem& problem, SharingSearch& search, PlanAnswer& answer, double& least) {
  if (answer.price <= least * (1 + detail::kSumTolerance)) return;
  const bool devices = problem.options.objective != Objective::price;
  const double enough = devices ? answer.price - 1 + 2 * detail::kBoundTolerance : answer.price;
  const double without_waiting = least_price(problem, search.pattern_bound(enough, false));
  least = std::max(least, without_waiting);
  if (problem.options.rule != Rule::certified || answer.price <= least * (1 + detail::kSumTolerance)) return;
  const double higher = least_price(problem, search.pattern_bound(enough, true));
  if (higher <= least * (1 + detail::kSumTolerance)) return;
  least = higher;
  answer.binds = "blocking";
}

std::vector<std::string> notes_of(const Problem& problem, const QueueProblem& queues) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& queue : queues.queues) {
    if (queue.may_share) continue;
    for (const std::size_t member : queue.members) {
      by_reason[queue.why_alone].push_back(problem.workload.services[member].name);
    }
  }
  std::vector<std::string> notes;
  for (const auto& [reason, names] : by_reason) {
    notes.push_back(names.size() == 1
                        ? fmt::format("{} shares no slice: {}", names[0], reason)
                        : fmt::format("{} and {} more share no slice: {}", names[0], names.size() - 1, reason));
  }
  return notes;
}

// More services than this take long without simulations as well.
constexpr std::size_t kRefusedEarlyUpTo = 60;

// Whether all services need more devices than the fleet has, whatever its types, even if nothing ever waited. Proved
// for plans with the buckets of the search, by the bounds; true says that no search is worth its time.
bool surely_too_small(const Problem& problem) {
  Problem unlimited = problem;
  unlimited.options.objective = Objective::devices;
  double count = 0;
  for (auto& group : unlimited.fleet.groups) {
    count += group.count.value_or(0);
    group.count.reset();
  }
  if (problem.options.sharing == Sharing::none) {
    const PlanAnswer alone = plan_by_cover(unlimited, take_stock(unlimited));
    return alone.status == PlanStatus::planned && alone.bound > count + detail::kBoundTolerance;
  }
  SharingSearch search(unlimited);
  const auto bound = search.bound();
  if (!bound.known) return false;
  if (least_price(unlimited, bound.price) > count + detail::kBoundTolerance) return true;
  const double patterns = search.pattern_bound(count + 2 * detail::kBoundTolerance, false);
  return least_price(unlimited, patterns) > count + detail::kBoundTolerance;
}

// On a fleet that is far too small, the search under Rule::certified simulates for minutes to answer no. Where the
// bounds prove it, the answer is given at once, with the reason that a search without waiting finds. Nothing if they do
// not, or if the reason is a single service, which the search itself explains better.
std::optional<PlanAnswer> refuse_early(const Problem& problem) {
  if (problem.options.rule != Rule::certified || problem.workload.services.size() > kRefusedEarlyUpTo) return {};
  const auto limited = [](const DeviceGroup& group) { return group.count.has_value(); };
  if (!std::ranges::all_of(problem.fleet.groups, limited)) return {};
  Problem cheap = problem;
  cheap.options.rule = Rule::no_waiting;
  cheap.budget.progress = {};
  PlanAnswer answer = plan_sharing(cheap, take_stock(cheap));
  if (answer.status == PlanStatus::planned || !answer.service.empty()) return {};
  if (!surely_too_small(cheap)) return {};
  return answer;
}

// ---- Other buckets and batches ----

// With how many buckets sharing is tried again where a plan is not known to be best. Services that fill their slices
// together also fill the batches of many buckets, which pad less.
constexpr int kBucketsFine = 9;

// The problem in other ways that are worth a search of their own where the queues are not too many and the plan is not
// known to be best: with batches apart for different promises, where services of one copy have such; and where the
// queues are few, with finer buckets, if some queue would be divided more finely, and with full batches.
std::vector<Problem> other_ways(const Problem& problem, const SharingSearch& usual) {
  std::vector<Problem> ways;
  if (detail::mixes_promises(problem, usual.queues()) && usual.size() <= detail::kQueuesPatterns) {
    ways.push_back(problem);
    ways.back().options.promises_apart = true;
  }
  if (problem.options.bucketing != Bucketing::chosen || usual.size() > kQueuesExact) return ways;
  Problem fine = problem;
  fine.options.buckets_max = std::max(fine.options.buckets_max, kBucketsFine);
  const auto demands = detail::queue_demands(detail::queue_problem(fine), detail::BucketChoice::cheapest);
  bool finer = false;
  for (std::size_t q = 0; q < demands.size(); ++q) {
    finer = finer || demands[q].edges.size() > usual.demands()[q].edges.size();
  }
  if (finer) ways.push_back(std::move(fine));
  ways.push_back(problem);
  ways.back().options.full_batches = true;
  return ways;
}

}  // namespace

std::string why_not_shared(const Problem& problem, const Service& service) {
  const std::string own = detail::why_alone(problem, service);
  const bool somebody = std::ranges::any_of(problem.workload.services, [&](const Service& other) {
    return other.name != service.name && may_share_slices(service, other);
  });
  if (!own.empty() || somebody) return own;
  if (service.isolation != Isolation::tenant) return "no other service may share with it";
  return "its isolation is tenant, and no other service has its tenant";
}

std::vector<std::string> tenant_doubts(const Workload& workload) {
  std::map<std::string, int> services;
  for (const auto& service : workload.services) {
    if (!service.tenant.empty()) ++services[service.tenant];
  }
  std::vector<std::string> doubts;
  for (const auto& service : workload.services) {
    if (service.tenant.empty() || services[service.tenant] > 1) continue;
    std::vector<std::string> others;
    for (const auto& [tenant, count] : services) {
      if (tenant != service.tenant) others.push_back(tenant);
    }
    const auto meant = text::nearest(service.tenant, others);
    // Of two tenants with one service each, either may be the slip: one warning is enough.
    if (!meant || (services[*meant] == 1 && *meant > service.tenant)) continue;
    doubts.push_back(
        fmt::format("service {} alone has the tenant {}, did you mean {}?", service.name, service.tenant, *meant));
  }
  return doubts;
}

PlanAnswer plan_sharing(const Problem& problem, const Stock& stock) {
  if (auto refused = refuse_early(problem)) return *refused;
  PlanAnswer alone = plan_by_cover(problem, stock);
  if (problem.options.sharing == Sharing::none || stock.kinds.empty() || problem.workload.services.size() < 2) {
    return alone;
  }
  auto search = std::make_unique<SharingSearch>(problem);
  auto bound = search->bound();
  if (!bound.known) return alone;
  const bool planned = alone.status == PlanStatus::planned;
  double least = least_price(problem, bound.price);
  double price = planned ? alone.price : std::numeric_limits<double>::infinity();
  PlanAnswer answer = alone;
  std::int64_t asked = alone.certifications;
  if (price > least * (1 + detail::kSumTolerance)) {
    if (const auto shared = search->search(bound, alone, price, least)) answer = search->answer_of(*shared);
    if (answer.status == PlanStatus::planned) price = answer.price;
  }
  const auto ways = other_ways(problem, *search);
  for (const Problem& way : ways) {
    const bool apart = way.options.promises_apart;
    if (apart && price <= least * (1 + detail::kSumTolerance)) continue;
    auto other = std::make_unique<SharingSearch>(way, detail::BucketChoice::cheapest);
    other->continue_after(*search);
    const auto other_bound = other->bound();
    const double other_least = least_price(problem, other_bound.price);
    if (other_bound.known && price > other_least * (1 + detail::kSumTolerance)) {
      if (const auto shared = other->search(other_bound, alone, price, other_least)) {
        answer = other->answer_of(*shared);
        price = answer.price;
        std::swap(search, other);
        // A bound for batches apart says nothing of plans in which services of one copy fill them together.
        if (!apart) bound = other_bound;
        least = apart ? std::min(least, other_least) : other_least;
      } else {
        search->continue_after(*other);
      }
    }
    asked += other->asked();  // Of the search that is not used any more.
  }
  answer.certifications = asked + search->asked();
  if (answer.status != PlanStatus::planned) return answer;
  answer.with_sharing = true;
  answer.binds = bound.binds;
  if (!search->batches_apart()) raise_bound(problem, *search, answer, least);
  answer.certifications = asked + search->asked();
  answer.bound = std::min(answer.price, least);
  answer.proved = answer.price <= least * (1 + detail::kSumTolerance);
  if (planned) answer.price_alone = alone.price;
  const auto notes = notes_of(problem, search->queues());
  answer.notes.insert(answer.notes.end(), notes.begin(), notes.end());
  return answer;
}

}  // namespace tangram::plan

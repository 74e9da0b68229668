// How much a number of devices carries, by a search over cuts and bucket edges.
//
// The number of ways to cut several devices is a product, so the search is greedy: all devices alike first, then other
// edges, then one device after the other. A way is compared with the best so far by one simulation at a slightly higher
// rate; only a way that carries it is pushed to its own highest rate. Search and answer use different seeds and
// lengths, so that the answer does not contain the luck of the search.

#include "experiments/highest_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "base/check.h"
#include "experiments/detail/text_services.h"
#include "plan/buckets.h"
#include "plan/demand.h"
#include "plan/work_bound.h"
#include "sched/deployment.h"
#include "sim/simulation.h"

namespace tangram::experiments {
namespace {

// Every service promises its p99.
constexpr double kKept = 0.99;
constexpr double kStep = 1.005;  // Rates are found to within half a percent.
constexpr double kStepDown = 1.02;
constexpr double kStepUp = 1.0202;  // Its fourth root is the least step.
constexpr double kRateLeast = 1;
// Of each service in one simulation: while searching, and for the answer, which also has other random numbers.
constexpr std::uint64_t kRequests = 8000;
constexpr std::uint64_t kRequestsJudged = 24000;

using Edges = std::vector<std::vector<std::int64_t>>;  // By service.

// The edges on offer: of one bucket that ends with the longest input, of the reference's five, and those that the
// planner likes best with few, some and many buckets.
enum class EdgeSet { longest, fixed, chosen_4, chosen_6, chosen_9 };
// Where edges are free to choose, most settings do best with six buckets; those are tried first.
constexpr std::array kFreeEdges{EdgeSet::chosen_6, EdgeSet::chosen_9, EdgeSet::chosen_4, EdgeSet::fixed};
constexpr std::array kLongestEdges{EdgeSet::longest};
constexpr std::array kFixedEdges{EdgeSet::fixed};

// One way of using the devices.
struct Way {
  std::vector<std::size_t> cuts;  // Of each device, by number.
  EdgeSet edges = EdgeSet::longest;
  const char* policy = "tangram";
};

struct RateTrial {
  double attainment = 0;  // Of the service that has least.
  double busy = 0;
  double useful = 0;
};

class RateSearch {
 public:
  RateSearch(const ElasticBatchInput& input, const ElasticBatchSetting& setting, int gpus)
      : latency_(input),
        workload_(detail::make_workload(input, setting)),
        gpus_(static_cast<std::size_t>(gpus)),
        guess_(setting.rate_per_s) {
    // One request a second for each service, so that the scale of a simulation is the rate.
    for (auto& service : workload_.services) service.traffic = PoissonTraffic{1};
    problem_ =
        detail::make_problem(input, latency_, detail::make_workload(input, setting), plan::Bucketing::chosen, nullptr);
    stock_ = plan::take_stock(problem_);
    geometry_ = stock_.geometries.front();
    std::vector<MigProfile> measured;
    for (std::size_t kind = 0; kind < stock_.kinds.size(); ++kind) measured.push_back(stock_.profile(kind));
    // Only measured profiles: a cut with any other slice could not be predicted.
    geometry_.profiles = std::move(measured);
    const auto cuts = pareto_multisets(geometry_);
    TANGRAM_CHECK(cuts.ok(), "a device that can be planned for can be listed");
    cuts_ = *cuts;
    list_equal_cuts();
    list_edges();
  }

  // Any cut: all devices alike, then other edges on the best of them, then one device after the other.
  void best_of_all(std::span<const EdgeSet> edges) {
    for (std::size_t cut = 0; cut < mixed_; ++cut) try_way(all_alike(cut, edges.front(), "tangram"));
    for (std::size_t i = 1; i < edges.size(); ++i) {
      // Where nothing was found, a cut may do with other edges.
      const bool found = rate_ > 0;
      for (std::size_t cut = 0; cut < mixed_; ++cut) {
        if (!found || cut == best_.cuts.front()) try_way(all_alike(cut, edges[i], "tangram"));
      }
    }
    for (std::size_t device = 1; device < gpus_ && rate_ > 0; ++device) {
      const Way from = best_;
      for (std::size_t cut = 0; cut < mixed_; ++cut) {
        Way way = from;
        way.cuts[device] = cut;
        if (cut != from.cuts[device]) try_way(way);
      }
    }
  }

  // Every device cut into slices of one kind: all kinds with all edges, so that the baseline has what suits it best.
  void best_equal(std::span<const EdgeSet> edges, const char* policy) {
    for (const EdgeSet which : edges) {
      for (std::size_t cut = mixed_; cut < cuts_.size(); ++cut) try_way(all_alike(cut, which, policy));
    }
  }

  // No scheduler carries more: no waiting, no padding, the best batch for each length, and 1 % of the requests lost.
  ElasticBatchResult bound(const ElasticBatchSetting& setting) const {
    ElasticBatchResult result;
    result.setting = setting;
    result.variant = "rate_bound";
    plan::Problem problem = problem_;
    problem.workload = workload_;
    result.rate_highest_per_s = plan::work_bound(problem, stock_, static_cast<int>(gpus_), 1 - kKept);
    result.gpus = static_cast<int>(gpus_);
    return result;
  }

  // What was found since the last call, judged with other random numbers.
  ElasticBatchResult answer(const ElasticBatchSetting& setting, const char* variant) {
    ElasticBatchResult result;
    result.setting = setting;
    result.variant = variant;
    if (rate_ > 0) judge(result);
    // Ready for the next variant.
    best_ = {};
    rate_ = 0;
    return result;
  }

 private:
  // Appends, for each profile, the most slices of it that a device holds. Cuts from `mixed_` on are these.
  void list_equal_cuts() {
    mixed_ = cuts_.size();
    for (std::size_t p = 0; p < geometry_.profiles.size(); ++p) {
      Multiset equal(geometry_.profiles.size(), 0);
      for (std::size_t cut = 0; cut < mixed_; ++cut) equal[p] = std::max(equal[p], cuts_[cut][p]);
      cuts_.push_back(std::move(equal));
    }
  }

  // Buckets are chosen for batches that never wait to fill: at the highest rate they do not.
  void list_edges() {
    const auto sets_of = [&](plan::Bucketing bucketing, int buckets_max) {
      plan::Problem problem = problem_;
      problem.options.bucketing = bucketing;
      problem.options.buckets_max = buckets_max;
      problem.options.demand_factor = 1e6;
      Edges edges;
      for (std::size_t s = 0; s < workload_.services.size(); ++s) {
        edges.push_back(plan::service_bucket_sets(problem, stock_, s).back().edges);
      }
      return edges;
    };
    edges_[EdgeSet::longest] = sets_of(plan::Bucketing::longest, 1);
    edges_[EdgeSet::fixed] = sets_of(plan::Bucketing::fixed, 1);
    edges_[EdgeSet::chosen_4] = sets_of(plan::Bucketing::chosen, 4);
    edges_[EdgeSet::chosen_6] = sets_of(plan::Bucketing::chosen, 6);
    edges_[EdgeSet::chosen_9] = sets_of(plan::Bucketing::chosen, 9);
  }

  Way all_alike(std::size_t cut, EdgeSet edges, const char* policy) const {
    return {std::vector<std::size_t>(gpus_, cut), edges, policy};
  }

  // The replicas of all services on a slice of a kind.
  const std::vector<Replica>& replicas(std::size_t kind, EdgeSet edges) {
    // Many cuts share kinds of slices, so replicas are computed once.
    const auto [found, fresh] = replicas_.try_emplace({kind, edges});
    for (std::size_t s = 0; s < workload_.services.size() && fresh; ++s) {
      Replica replica{workload_.services[s].name, {}, 1};
      for (const std::int64_t edge : edges_.at(edges)[s]) {
        const auto choice = plan::best_batch(problem_, stock_, s, kind, 1, edge, std::numeric_limits<double>::max());
        if (choice.batch > 0) replica.buckets.push_back({edge, choice.batch});
      }
      if (!replica.buckets.empty()) found->second.push_back(std::move(replica));
    }
    return found->second;
  }

  // The plan of a way: every model on every slice that can run it.
  Plan plan_of(const Way& way) {
    Plan plan;
    for (std::size_t d = 0; d < way.cuts.size(); ++d) {
      const auto layout = realise(geometry_, cuts_[way.cuts[d]]);
      TANGRAM_CHECK(layout.has_value(), "a cut of the table can be made");
      PlannedDevice device{fmt::format("{}-{}", geometry_.type, d), geometry_.type, geometry_, {}};
      for (const Slice& slice : layout->slices) {
        device.slices.push_back({slice, replicas(slice.profile, way.edges)});
      }
      plan.devices.push_back(std::move(device));
    }
    return plan;
  }

  // Every input has a slice that takes it.
  bool serves_all(const Plan& plan, EdgeSet edges) const {
    std::map<std::string, std::int64_t> longest;
    for (const auto& device : plan.devices) {
      for (const auto& slice : device.slices) {
        for (const auto& replica : slice.replicas) {
          auto& most = longest[replica.service];
          most = std::max(most, replica.buckets.back().size_max);
        }
      }
    }
    for (std::size_t s = 0; s < workload_.services.size(); ++s) {
      if (longest[workload_.services[s].name] < edges_.at(edges)[s].back()) return false;
    }
    return true;
  }

  // One simulation at `rate` requests a second of each service.
  RateTrial run(const sched::Deployment& deployment, const char* policy, double rate, bool judged) const {
    sim::SimulationConfig config;
    config.scheduler.policy = policy;
    config.seed = judged ? detail::kSeedJudged : detail::kSeedSearch;
    config.rate_scale = rate;
    config.requests_max = (judged ? kRequestsJudged : kRequests) * workload_.services.size();
    config.warmup_requests = config.requests_max / 10;
    const auto result = sim::simulate(deployment, workload_, config);
    RateTrial trial{1, 0, 0};
    for (std::size_t s = 0; s < workload_.services.size(); ++s) {
      trial.attainment = std::min(trial.attainment, result.metrics.service_total(s).slo_attainment());
    }
    // The capacity of whole devices in nanoseconds of compute slices; what a cut leaves unused counts as idle.
    const double all = geometry_.compute_slices * static_cast<double>(gpus_) * 1e9 * to_seconds(result.end);
    for (std::size_t i = 0; i < deployment.places.size(); ++i) {
      const double size = deployment.pools[deployment.places[i].pool.index()].compute_slices;
      trial.busy += size * static_cast<double>(result.metrics.slices[i].busy_ns) / all;
      trial.useful += size * result.metrics.slices[i].useful_ns / all;
    }
    return trial;
  }

  bool carries(const sched::Deployment& deployment, const char* policy, double rate) const {
    return run(deployment, policy, rate, false).attainment >= kKept;
  }

  // Keeps the way if it carries more than the best so far. One simulation rejects a way that does not.
  void try_way(const Way& way) {
    const Plan plan = plan_of(way);
    if (!serves_all(plan, way.edges)) return;
    const auto deployment = sched::compile(plan, workload_, latency_);
    TANGRAM_CHECK(deployment.ok(), "a plan of ours can be served");
    // With a best way known, a way must carry at least one step more. Without one, halve the guess until it carries.
    double low = rate_ > 0 ? rate_ * kStep : guess_;
    bool carried = carries(*deployment, way.policy, low);
    if (!carried && rate_ > 0) return;
    while (!carried && low > kRateLeast) carried = carries(*deployment, way.policy, low /= 2);
    if (!carried) return;
    best_ = way;
    rate_ = push(*deployment, way.policy, low);
  }

  // The highest rate, from a rate that is carried. Steps shrink by square roots until they reach the resolution.
  double push(const sched::Deployment& deployment, const char* policy, double low) const {
    double step = rate_ > 0 ? 1.08 : 2;
    while (step > kStep) {
      if (carries(deployment, policy, low * step)) {
        low *= step;
      } else {
        step = std::sqrt(step);
      }
    }
    return low;
  }

  void judge(ElasticBatchResult& result) {
    const Plan plan = plan_of(best_);
    const auto deployment = sched::compile(plan, workload_, latency_);
    TANGRAM_CHECK(deployment.ok(), "a plan of ours can be served");
    // The search used fewer requests and may have been lucky with them: the rate goes down until it holds on the longer
    // run, and then up again in small steps.
    double rate = rate_;
    RateTrial trial = run(*deployment, best_.policy, rate, true);
    while (trial.attainment < kKept && rate > kRateLeast)
      trial = run(*deployment, best_.policy, rate /= kStepDown, true);
    for (double step = kStepUp; step >= kStep; step = std::sqrt(step)) {
      const RateTrial next = run(*deployment, best_.policy, rate * step, true);
      if (next.attainment < kKept) continue;
      trial = next;
      rate *= step;
    }
    result.rate_highest_per_s = rate;
    result.gpus = static_cast<int>(gpus_);
    result.slo_attainment = trial.attainment;
    result.utilisation_busy = trial.busy;
    result.utilisation_useful = trial.useful;
    result.layouts = layouts_text(plan);
  }

  detail::MeasuredSlices latency_;
  Workload workload_;  // At one request a second; rates scale it.
  std::size_t gpus_;
  double guess_;
  plan::Problem problem_;
  plan::Stock stock_;
  Geometry geometry_;  // With the measured profiles alone, in the order of the stock's kinds.
  std::vector<Multiset> cuts_;
  std::size_t mixed_ = 0;  // The first so many of `cuts_` mix kinds of slices; those after them are of one kind each.
  std::map<EdgeSet, Edges> edges_;
  std::map<std::pair<std::size_t, EdgeSet>, std::vector<Replica>> replicas_;  // By kind of slice.
  Way best_;
  double rate_ = 0;
};

}  // namespace

const std::vector<ElasticBatchVariant>& highest_rate_variants() {
  static const std::vector<ElasticBatchVariant> kVariants{
      {"rate_elastic", "MIG on, cuts and edges by search, dispatch by tangram"},
      {"rate_oracle_longest", "the same with every input padded to the longest"},
      {"rate_fifo_fixed", "the best equal slices, first in, first out, buckets of 32, 64, 128, 256 and 512"},
      {"rate_fifo_chosen", "the same with the edges that suit it best"},
      {"rate_bound", "no scheduler carries more: full batches, no padding and no waiting"},
  };
  return kVariants;
}

std::vector<ElasticBatchResult> run_highest_rates(const ElasticBatchInput& input, const ElasticBatchSetting& setting,
                                                  int gpus) {
  RateSearch search(input, setting, gpus);
  std::vector<ElasticBatchResult> results;
  search.best_of_all(kFreeEdges);
  results.push_back(search.answer(setting, "rate_elastic"));
  search.best_of_all(kLongestEdges);
  results.push_back(search.answer(setting, "rate_oracle_longest"));
  search.best_equal(kFixedEdges, "fifs");
  results.push_back(search.answer(setting, "rate_fifo_fixed"));
  search.best_equal(kFreeEdges, "fifs");
  results.push_back(search.answer(setting, "rate_fifo_chosen"));
  results.push_back(search.bound(setting));
  return results;
}

ElasticBatchResult run_rate_elastic(const ElasticBatchInput& input, const ElasticBatchSetting& setting, int gpus) {
  RateSearch search(input, setting, gpus);
  search.best_of_all(kFreeEdges);
  return search.answer(setting, "rate_elastic");
}

}  // namespace tangram::experiments

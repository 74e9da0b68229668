// From a problem to a plan: choose buckets, solve the covering problem, confirm the covers, lay the slices out.
//
// Under Rule::certified the search calls a simulator for each cover that has the capacity. Two measures keep that
// affordable and sound. Covers are screened before they are simulated (class Acceptance), and a cover that held in the
// search is simulated again with other random numbers, since the search picks covers that were lucky. A cover that
// fails there is struck out, and all is solved again.
//
// Invariants: a certified plan is returned only if every service's last verdict holds, and the bound is never raised
// by the extra room that later rounds ask for.

#include "plan/compose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/check.h"
#include "base/text.h"
#include "plan/buckets.h"
#include "plan/detail/acceptance.h"
#include "plan/detail/no_plan.h"
#include "plan/detail/service_cover.h"
#include "plan/detail/tolerance.h"

namespace tangram::plan {
namespace {

// The kinds of one group as a geometry of their own, so that pareto_multisets() lists only cuts into profiles that
// some service can use, beside what is reserved.
Geometry geometry_of_kinds(const Problem& problem, const Stock& stock, const std::vector<std::size_t>& kinds) {
  const std::size_t group = stock.kinds[kinds[0]].group;
  Geometry geometry = beside(stock.geometries[group], problem.fleet.groups[group].reserved);
  std::vector<MigProfile> profiles;
  for (const std::size_t kind : kinds) profiles.push_back(geometry.profiles[stock.kinds[kind].profile]);
  geometry.profiles = std::move(profiles);
  return geometry;
}

// A group of the fleet in the terms of the covering problem. Only Pareto cuts are listed: a slice too many can be left
// free.
CoverDevice cover_device(const Problem& problem, const Stock& stock, std::size_t group) {
  CoverDevice device;
  const DeviceGroup& asked = problem.fleet.groups[group];
  device.price = problem.options.objective == Objective::price ? asked.price_per_hour : 1;
  device.count_max = asked.count.value_or(-1);
  for (std::size_t kind = 0; kind < stock.kinds.size(); ++kind) {
    if (stock.kinds[kind].group == group) device.kinds.push_back(kind);
  }
  if (device.kinds.empty()) return device;
  const auto multisets = pareto_multisets(geometry_of_kinds(problem, stock, device.kinds));
  TANGRAM_CHECK(multisets.ok(), "a device that can be planned for can be listed");
  for (const auto& multiset : *multisets) device.cuts.emplace_back(multiset.begin(), multiset.end());
  return device;
}

}  // namespace

CoverService cover_service(const Demand& demand) {
  CoverService service;
  service.demand = demand.rate_per_s;
  for (const auto& offer : demand.offers) service.offers.push_back({offer.kind, offer.rate_per_s});
  return service;
}

// The slices of a cover in the terms of a certifier.
std::vector<ReplicaGroup> groups_of(const Problem& problem, const Stock& stock, const Demand& demand,
                                    const Cover& cover) {
  std::vector<ReplicaGroup> groups;
  for (std::size_t o = 0; o < cover.size(); ++o) {
    if (cover[o] > 0) groups.push_back(replica_group(problem, stock, demand, demand.offers[o], cover[o]));
  }
  return groups;
}

namespace {

// True if capacity at the planned end of a drift is not all that a service needs.
bool asks(const Problem& problem, const Demand& demand) {
  return problem.options.rule == Rule::certified || !demand.other_rate_per_s.empty();
}

}  // namespace

void add_reserved(const DeviceGroup& group, PlannedDevice& device) {
  for (const Slice& slice : group.reserved.slices) device.slices.push_back({slice, {}, true});
  std::ranges::sort(device.slices, {}, [](const PlannedSlice& planned) { return planned.slice.start; });
}

std::vector<double> even_prices(const CoverProblem& problem) {
  std::vector<double> price(problem.kinds, 1e6);
  for (const auto& device : problem.devices) {
    for (std::size_t i = 0; i < device.kinds.size(); ++i) {
      int most = 0;
      for (const auto& cut : device.cuts) most = std::max(most, cut[i]);
      if (most > 0) price[device.kinds[i]] = device.price / most;
    }
  }
  return price;
}

namespace {

// At most three of the sets near the cheapest: the one with fewest buckets, the one with most, and one in between.
// Each set tried costs a search and its simulations.
std::vector<BucketSet> worth_trying(std::vector<BucketSet> sets) {
  if (sets.empty()) return sets;
  const double limit = 1.3 * sets.back().cost;  // Costs descend.
  std::erase_if(sets, [&](const BucketSet& set) { return set.cost > limit; });
  if (sets.size() <= 3) return sets;
  return {sets.front(), sets[sets.size() / 2], sets.back()};
}

}  // namespace

// Covers are whole slices here, and certified if the rule asks for it, so a set loses that looks good on average but
// splits the load too far.
Demand choose_demand(const Problem& problem, const Stock& stock, std::size_t service,
                     const std::vector<double>& kind_price, std::int64_t* asked) {
  Demand best;
  double best_cost = 1e300;
  for (const auto& set : worth_trying(service_bucket_sets(problem, stock, service))) {
    Demand demand = make_demand(problem, stock, service, set.edges);
    CoverService cover = cover_service(demand);
    const detail::Acceptance acceptance(problem, stock, demand);
    if (asks(problem, demand)) {
      cover.accepts = [&](const Cover& c) { return acceptance.accepts(c); };
    }
    detail::ServiceCovers covers(cover);
    double cost = 1e299;
    if (covers.coverable()) {
      const auto cheapest = covers.cheapest(kind_price, problem.budget.cover_nodes_max);
      if (cheapest) cost = cheapest->cost;
    }
    *asked += acceptance.asked();
    if (best.edges.empty() || cost < best_cost * (1 - detail::kSavingMin)) {
      best = std::move(demand);
      best_cost = cost;
    }
  }
  return best;
}

namespace {

PlanAnswer infeasible(std::int64_t asked, std::string service, std::string reason) {
  PlanAnswer answer = detail::no_plan(std::move(service), std::move(reason));
  answer.certifications = asked;
  return answer;
}

// The number of devices that run any of the models. Requires that all of them are limited in number.
int usable_devices(const CoverProblem& limited) {
  int count = 0;
  for (const auto& device : limited.devices) count += std::max(0, device.count_max);
  return count;
}

// Names the nearest change that would help: what the services would take on a fleet without limits, by capacity alone.
// If the fleet has that many devices, capacity suffices and waiting is the problem.
std::string why_too_small(const Problem& problem, const CoverModel& model) {
  const CoverProblem& limited = model.problem;
  const int count = usable_devices(limited);
  std::string text =
      fmt::format("the fleet has {} device{} that run{} the models, but no way to cut {} serves all services; ", count,
                  count == 1 ? "" : "s", count == 1 ? "s" : "", count == 1 ? "it" : "them");
  CoverProblem unlimited = limited;
  for (auto& device : unlimited.devices) device.count_max = -1;
  CoverBudget budget = problem.budget;
  budget.progress = {};
  const CoverAnswer cover = solve_cover(unlimited, budget);
  int used = 0;
  bool fits = true;
  std::vector<std::string> parts;
  for (std::size_t d = 0; d < cover.cuts.size(); ++d) {
    const int of_type = std::accumulate(cover.cuts[d].begin(), cover.cuts[d].end(), 0);
    if (of_type > 0) parts.push_back(fmt::format("{} x {}", of_type, problem.fleet.groups[model.groups[d]].type));
    used += of_type;
    fits = fits && (limited.devices[d].count_max < 0 || of_type <= limited.devices[d].count_max);
  }
  const bool certified = problem.options.rule == Rule::certified;
  if (cover.status == CoverStatus::solved && certified && fits) {
    return text +
           "one would by capacity alone, but requests would wait too long: add a device, lower the rates or lengthen "
           "the Slos";
  }
  if (cover.status == CoverStatus::solved) {
    text += fmt::format("{}{} ({}) would be enough if no type had a limit; ",
                        problem.options.rule == Rule::half ? "" : "at least ", used, text::join(parts, " + "));
  }
  return text + "lower rates or longer Slos would help";
}

// Explains why no number of slices serves a service although each of its inputs runs in time. Above this many slices
// the rate is the reason; below it, waiting in queues is.
constexpr double kSlicesSearched = 5000;

std::string why_not_covered(const Problem& problem, const Stock& stock, const Demand& demand) {
  const Service& service = problem.workload.services[demand.service];
  double slices = 0;  // A lower bound: each input on the slice that runs most of it.
  std::string where;
  for (std::size_t i = 0; i < demand.edges.size(); ++i) {
    const auto best = std::ranges::max_element(demand.offers, {}, [&](const Offer& o) { return o.rate_per_s[i]; });
    slices += demand.rate_per_s[i] / best->rate_per_s[i];
    where = stock.type(best->kind) + " " + stock.profile(best->kind).name;
  }
  if (slices > kSlicesSearched) {
    return fmt::format("{}: its rate needs {:.3g} slices such as {}, more than the planner tries; {} would help",
                       service.name, slices, where, service.job ? "fewer rows or a later deadline" : "a lower rate");
  }
  return fmt::format(
      "{}: no number of slices that was tried keeps the Slo of {} ms; a longer Slo or a lower rate may help",
      service.name, text::shortest(to_milliseconds(service.slo.latency)));
}

// No slice runs the smallest input of any service. The explanation is about the first service.
std::string why_no_kinds(const Problem& problem) {
  if (problem.fleet.groups.empty()) return "the fleet is empty; add at least one device";
  if (problem.workload.services.empty()) return "there is nothing to plan: the workload has no services";
  return why_not_run(problem, 0, size_shares(problem.workload.services[0]).back().size);
}

// Certifying a promise takes requests in proportion to one over what it may lose: at this percentile ten million.
constexpr double kPercentileMax = 99.999;

std::string why_not_certifiable(const Service& service) {
  return fmt::format(
      "{}: a percentile of {} cannot be certified by simulation; the highest that can is {}. Ask for less, or plan with "
      "--rule half, which simulates nothing",
      service.name, text::shortest(service.slo.percentile), text::shortest(kPercentileMax));
}

struct Solved {
  CoverModel model;
  CoverAnswer answer;
  std::vector<Demand> demands;
  std::vector<std::optional<Verdict>> verdicts;
  std::vector<std::optional<NearestCover>> nearest;  // By service.
  std::vector<SmallerCovers> smaller;                // By service.
  std::vector<bool> refuted;  // By service: some cover of it held in the search and not when it was confirmed.
  std::int64_t asked = 0;

  // The first service whose Slo did not hold in the confirmation; demands.size() if all held.
  std::size_t unconfirmed() const {
    const auto broken = [](const std::optional<Verdict>& verdict) { return verdict && !verdict->holds; };
    return static_cast<std::size_t>(std::ranges::find_if(verdicts, broken) - verdicts.begin());
  }
};

// How many times its demand the cover carries, at the end of a drift where that is less.
double least_load_factor(const Demand& demand, const Cover& cover) {
  CoverService service = cover_service(demand);
  const double factor = cover_load_factor(service, cover);
  if (demand.other_rate_per_s.empty()) return factor;
  service.demand = demand.other_rate_per_s;
  return std::min(factor, cover_load_factor(service, cover));
}

}  // namespace

bool carries(const Demand& demand, const Cover& cover) {
  return least_load_factor(demand, cover) >= 1 - detail::kSumTolerance;
}

Verdict certify_cover(const Problem& problem, const Stock& stock, const Demand& demand, const Cover& cover,
                      bool confirm) {
  const Service& service = problem.workload.services[demand.service];
  // A job has no deadlines of single requests, only one for all rows. It ends in time if the capacity suffices, so a
  // simulation would add nothing.
  if (service.job) {
    const double factor = least_load_factor(demand, cover);
    const bool holds = factor >= 1 - detail::kSumTolerance;
    const double ends_s = kJobShare * to_seconds(service.job->deadline) / std::max(factor, detail::kRateMin);
    const double share = holds ? 1.0 : 0.0;
    return {.holds = holds,
            .attainment = share,
            .attainment_low = share,
            .attainment_high = share,
            .latency = from_seconds(ends_s),
            .view = "long run"};
  }
  const auto groups = groups_of(problem, stock, demand, cover);
  if (!service.size_drift) return problem.certifier->certify(service, groups, confirm);
  const Verdict before = problem.certifier->certify(before_drift(service), groups, confirm);
  if (!before.holds) return before;
  const Verdict after = problem.certifier->certify(after_drift(service), groups, confirm);
  // If both ends hold, report the one with the lower attainment.
  return after.holds && after.attainment > before.attainment ? before : after;
}

CoverModel cover_model(const Problem& problem, const Stock& stock, const std::vector<Demand>& demands) {
  CoverModel model;
  model.problem.kinds = stock.kinds.size();
  for (std::size_t g = 0; g < problem.fleet.groups.size(); ++g) {
    CoverDevice device = cover_device(problem, stock, g);
    if (device.kinds.empty()) continue;
    model.problem.devices.push_back(std::move(device));
    model.groups.push_back(g);
  }
  for (const auto& demand : demands) model.problem.services.push_back(cover_service(demand));
  return model;
}

Plan lay_out(const Problem& problem, const Stock& stock, const CoverModel& model,
             const std::vector<std::vector<int>>& cuts, const std::vector<Demand>& demands,
             const std::vector<Cover>& covers) {
  // The replicas to be placed on slices of each kind, in the order of services.
  SliceReplicas wanted(stock.kinds.size());
  for (std::size_t s = 0; s < demands.size(); ++s) {
    for (std::size_t o = 0; o < covers[s].size(); ++o) {
      const auto group = replica_group(problem, stock, demands[s], demands[s].offers[o], covers[s][o]);
      for (int n = 0; n < covers[s][o]; ++n) wanted[demands[s].offers[o].kind].push_back({group.replica});
    }
  }
  return lay_out(problem, stock, model, cuts, wanted);
}

Plan lay_out(const Problem& problem, const Stock& stock, const CoverModel& model,
             const std::vector<std::vector<int>>& cuts, const SliceReplicas& wanted) {
  std::vector<std::size_t> next(stock.kinds.size(), 0);
  Plan plan;
  for (std::size_t d = 0; d < cuts.size(); ++d) {
    const auto& device = model.problem.devices[d];
    const DeviceGroup& group = problem.fleet.groups[model.groups[d]];
    const Geometry& geometry = stock.geometries[model.groups[d]];
    const Geometry part = geometry_of_kinds(problem, stock, device.kinds);
    int number = 0;
    for (std::size_t c = 0; c < cuts[d].size(); ++c) {
      Multiset multiset;
      for (const int n : device.cuts[c]) multiset.push_back(static_cast<std::uint16_t>(n));
      const auto layout = realise(part, multiset);
      TANGRAM_CHECK(layout.has_value(), "a cut of the table can be made");
      for (int n = 0; n < cuts[d][c]; ++n) {
        PlannedDevice planned;
        planned.name = device_name(group, number++);
        planned.type = group.type;
        planned.geometry = geometry;
        for (const Slice& slice : layout->slices) {
          const std::size_t kind = device.kinds[slice.profile];
          PlannedSlice cut{{static_cast<std::uint16_t>(stock.kinds[kind].profile), slice.start}, {}};
          // Slices beyond the need of all covers stay free: a Pareto cut may have more than was asked for.
          if (next[kind] < wanted[kind].size()) cut.replicas = wanted[kind][next[kind]++];
          planned.slices.push_back(std::move(cut));
        }
        add_reserved(group, planned);
        plan.devices.push_back(std::move(planned));
      }
    }
  }
  for (std::size_t kind = 0; kind < wanted.size(); ++kind) {
    TANGRAM_CHECK(next[kind] == wanted[kind].size(), "the cuts hold every slice that the covers need");
  }
  return plan;
}

namespace {

// Solves, then confirms every service with other random numbers. The cover of a service that fails is struck out, and
// all is solved again. From the fourth round on, a service that fails must also have more room.
constexpr int kConfirmRoundsMax = 10;
constexpr int kConfirmRoundsExact = 4;

// Asking for more room than the rule does proves nothing about the rule, so the bound is limited to the one from
// before.
void limit_bound(CoverAnswer& answer, double bound) {
  answer.bound = std::min(answer.bound, bound);
  answer.proved = answer.proved && answer.price <= answer.bound * (1 + detail::kSumTolerance);
}

Solved solve(const Problem& problem, const Stock& stock) {
  Solved solved;
  solved.model = cover_model(problem, stock, {});
  const auto prices = even_prices(solved.model.problem);
  for (std::size_t s = 0; s < problem.workload.services.size(); ++s) {
    solved.demands.push_back(choose_demand(problem, stock, s, prices, &solved.asked));
    solved.model.problem.services.push_back(cover_service(solved.demands.back()));
  }
  std::vector<detail::Acceptance> acceptances;
  for (const auto& demand : solved.demands) acceptances.emplace_back(problem, stock, demand);
  const bool certified = problem.options.rule == Rule::certified;
  for (std::size_t s = 0; s < acceptances.size(); ++s) {
    if (!asks(problem, solved.demands[s])) continue;
    solved.model.problem.services[s].accepts = [&acceptances, s](const Cover& c) { return acceptances[s].accepts(c); };
  }
  solved.verdicts.resize(solved.demands.size());
  solved.refuted.resize(solved.demands.size(), false);
  std::optional<double> bound_exact;  // Of the last round that asked for no more room than the rule does.
  for (int round = 0; round < kConfirmRoundsMax; ++round) {
    solved.answer = solve_cover(solved.model.problem, problem.budget);
    if (!certified || solved.answer.status != CoverStatus::solved) break;
    // The last round without extra room: its bound is the last that is valid for the rule.
    if (round + 1 == kConfirmRoundsExact) bound_exact = solved.answer.bound;
    for (std::size_t s = 0; s < acceptances.size(); ++s) {
      solved.verdicts[s] = acceptances[s].certify(solved.answer.covers[s], true);
      if (solved.verdicts[s]->holds) continue;
      acceptances[s].refute(solved.answer.covers[s]);
      solved.refuted[s] = true;
      if (round + 1 >= kConfirmRoundsExact) acceptances[s].ask_more_than(solved.answer.covers[s]);
    }
    if (solved.unconfirmed() == acceptances.size()) break;
  }
  if (bound_exact) limit_bound(solved.answer, *bound_exact);
  if (std::ranges::any_of(acceptances, &detail::Acceptance::hurried) && solved.answer.status == CoverStatus::solved) {
    CoverProblem by_capacity = solved.model.problem;
    for (auto& service : by_capacity.services) service.accepts = {};
    limit_bound(solved.answer, solve_cover(by_capacity, problem.budget).bound);
  }
  for (std::size_t s = 0; s < acceptances.size(); ++s) {
    solved.asked += acceptances[s].asked();
    const bool planned = certified && solved.answer.status == CoverStatus::solved;
    solved.nearest.push_back(planned ? acceptances[s].nearest(solved.answer.covers[s], prices) : std::nullopt);
    solved.smaller.push_back(planned ? acceptances[s].smaller(solved.answer.covers[s], prices)
                                     : SmallerCovers::not_asked);
  }
  // The functions refer to `acceptances`, which ends here; the model outlives it.
  for (auto& service : solved.model.problem.services) service.accepts = {};
  return solved;
}

std::string why_unconfirmed(const Service& service) {
  return fmt::format(
      "{}: its Slo of {} ms held in the search, but not in the confirmation with other random numbers; a longer Slo "
      "or a lower rate would help",
      service.name, text::shortest(to_milliseconds(service.slo.latency)));
}

ServicePlan describe(const Problem& problem, const Stock& stock, const Solved& solved, std::size_t s) {
  const Demand& demand = solved.demands[s];
  ServicePlan plan;
  plan.service = problem.workload.services[demand.service].name;
  plan.edges = demand.edges;
  plan.rate_per_s = std::accumulate(demand.rate_per_s.begin(), demand.rate_per_s.end(), 0.0);
  plan.load_factor = cover_load_factor(solved.model.problem.services[s], solved.answer.covers[s]);
  for (std::size_t o = 0; o < demand.offers.size(); ++o) {
    const int count = solved.answer.covers[s][o];
    if (count > 0) plan.groups.push_back(replica_group(problem, stock, demand, demand.offers[o], count));
  }
  if (s < solved.answer.service_price.size()) plan.price = solved.answer.service_price[s];
  plan.verdict = solved.verdicts[s];
  plan.nearest = solved.nearest[s];
  plan.smaller = solved.smaller[s];
  return plan;
}

}  // namespace

PlanAnswer plan_by_cover(const Problem& problem, const Stock& stock) {
  if (stock.kinds.empty()) {
    const bool named = !problem.fleet.groups.empty() && !problem.workload.services.empty();
    return infeasible(0, named ? problem.workload.services[0].name : "", why_no_kinds(problem));
  }
  for (const auto& service : problem.workload.services) {
    if (problem.options.rule != Rule::certified || service.job || service.slo.percentile <= kPercentileMax) continue;
    return infeasible(0, service.name, why_not_certifiable(service));
  }
  Solved solved = solve(problem, stock);
  if (solved.answer.status != CoverStatus::solved) {
    const std::size_t s = solved.answer.infeasible_service;
    if (s >= solved.demands.size()) return infeasible(solved.asked, "", why_too_small(problem, solved.model));
    const std::string& name = problem.workload.services[solved.demands[s].service].name;
    std::string reason = why_unservable(problem, stock, solved.demands[s]);
    if (reason.empty()) {
      reason = solved.refuted[s] ? why_unconfirmed(problem.workload.services[solved.demands[s].service])
                                 : why_not_covered(problem, stock, solved.demands[s]);
    }
    return infeasible(solved.asked, name, std::move(reason));
  }
  // The rounds ran out with a service still unconfirmed. No plan is better than one that is known to break its Slo.
  if (const std::size_t s = solved.unconfirmed(); s < solved.demands.size()) {
    const Service& service = problem.workload.services[solved.demands[s].service];
    return infeasible(solved.asked, service.name, why_unconfirmed(service));
  }
  PlanAnswer answer;
  answer.status = PlanStatus::planned;
  answer.plan = lay_out(problem, stock, solved.model, solved.answer.cuts, solved.demands, solved.answer.covers);
  answer.devices = static_cast<int>(answer.plan.devices.size());
  answer.price = solved.answer.price;
  answer.bound = solved.answer.bound;
  answer.proved = solved.answer.proved;
  answer.certifications = solved.asked;
  for (std::size_t s = 0; s < solved.demands.size(); ++s) {
    answer.services.push_back(describe(problem, stock, solved, s));
  }
  return answer;
}

}  // namespace tangram::plan

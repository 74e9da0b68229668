// PARIS as a planner. Each service is cut for on its own, with the smallest budget of compute slices whose PARIS cut
// carries it and keeps its Slo. The slices of all services are then packed onto devices.
//
// PARIS assumes one type of device, one model at a time and queries that run alone. So every input is padded to the
// longest, and the batch sizes of queries are the samples that requests hold. Slices that cannot run the largest
// request in time are not on offer.

#include "plan/planners/paris.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/compose.h"
#include "plan/detail/tolerance.h"
#include "plan/objective.h"

namespace tangram::plan {
namespace {

// Budgets grow by a twelfth while the Slo is not kept, at most 80 times: a factor of about 600 for large budgets.
constexpr int kBudgetShare = 12;
constexpr int kBudgetsMax = 80;
constexpr int kBudgetMost = 1 << 20;

// One service, with one offer for each size of slice.
class ServiceCut {
 public:
  ServiceCut(const Problem& problem, const Stock& stock, const Demand& demand)
      : problem_(problem), stock_(stock), demand_(demand) {
    for (std::size_t o = 0; o < demand.offers.size(); ++o) order_.push_back(o);
    std::ranges::stable_sort(order_, {}, [&](std::size_t o) { return size_of(o); });
    const auto same = [&](std::size_t a, std::size_t b) { return size_of(a) == size_of(b); };
    // PARIS has one entry per size. The sort is stable, so the first offer of each size stays.
    order_.erase(std::unique(order_.begin(), order_.end(), same), order_.end());
    service_.demand = demand.rate_per_s;
    for (const auto& offer : demand.offers) service_.offers.push_back({offer.kind, offer.rate_per_s});
  }

  // The cover that PARIS cuts for a budget of compute slices.
  Cover at(int budget) const {
    ParisProblem paris_problem;
    for (const std::size_t o : order_) paris_problem.sizes.push_back(size_of(o));
    paris_problem.batch_share = samples_by_number(service());
    paris_problem.compute_slices = budget;
    paris_problem.run_s = [&](std::size_t i, std::int64_t batch) { return run_s(order_[i], batch); };
    const auto counts = paris(paris_problem).counts;
    Cover cover(demand_.offers.size(), 0);
    for (std::size_t i = 0; i < order_.size(); ++i) cover[order_[i]] = counts[i];
    return cover;
  }

  bool carries(const Cover& cover) const { return cover_load_factor(service_, cover) >= 1 - detail::kSumTolerance; }

  // The first budget that has the capacity, by doubling and bisection. Rounding can make a larger budget carry
  // slightly less, so this is an approximation; cover_of() tests each budget again.
  int least_budget() const {
    int high = 1;
    while (high < kBudgetMost && !carries(at(high))) high *= 2;
    int low = high / 2;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (carries(at(middle)) ? high : low) = middle;
    }
    return high;
  }

  const CoverService& cover_service() const { return service_; }

 private:
  const Service& service() const { return problem_.workload.services[demand_.service]; }
  int size_of(std::size_t offer) const { return stock_.profile(demand_.offers[offer].kind).compute_slices; }

  double run_s(std::size_t offer, std::int64_t batch) const {
    const std::size_t kind = demand_.offers[offer].kind;
    const auto run = problem_.latency->predict(
        {stock_.type(kind), stock_.profile(kind).name, service().model, batch, demand_.edges.back(), 1});
    return run ? to_seconds(run->mean) : 1e9;
  }

  const Problem& problem_;
  const Stock& stock_;
  const Demand& demand_;
  std::vector<std::size_t> order_;  // Offers by ascending size, one each.
  CoverService service_;
};

class Paris final : public Planner {
 public:
  PlanAnswer plan(const Problem& asked) const override {
    Problem problem = asked;
    problem.options.bucketing = Bucketing::longest;
    // PARIS does not share a slice between processes.
    problem.options.processes_max = 1;
    return plan_for_objective(problem, plan_once);
  }

 private:
  static PlanAnswer infeasible(std::string service, std::string reason) {
    PlanAnswer none;
    none.service = std::move(service);
    none.reason = std::move(reason);
    return none;
  }

  static PlanAnswer plan_once(const Problem& problem) {
    Stock stock = take_stock(problem);
    std::erase_if(stock.kinds, [](const SliceKind& kind) { return kind.group != 0; });
    if (stock.kinds.empty()) return plan_by_cover(problem, stock);  // It explains why.
    PlanAnswer answer;
    std::vector<Demand> demands;
    std::vector<Cover> covers;
    for (std::size_t s = 0; s < problem.workload.services.size(); ++s) {
      const Service& service = problem.workload.services[s];
      demands.push_back(make_demand(problem, stock, s, {size_shares(service).back().size}));
      if (demands.back().offers.empty()) {
        return infeasible(service.name, why_unservable(problem, stock, demands.back()));
      }
      answer.services.emplace_back();
      auto cover = cover_of(problem, stock, demands.back(), answer.services.back(), answer.certifications);
      if (!cover) {
        return infeasible(
            service.name,
            fmt::format(
                "{}: the cuts that PARIS makes of up to {} budgets do not keep its Slo; a longer Slo or another "
                "planner may help",
                service.name, kBudgetsMax));
      }
      covers.push_back(std::move(*cover));
    }
    return packed(problem, stock, demands, covers, std::move(answer));
  }

  // The cover of the smallest budget tried that is accepted, or nullopt. Fills `plan` for it.
  static std::optional<Cover> cover_of(const Problem& problem, const Stock& stock, const Demand& demand,
                                       ServicePlan& plan, std::int64_t& asked) {
    const ServiceCut cut(problem, stock, demand);
    int budget = cut.least_budget();
    for (int tries = 0; tries < kBudgetsMax; ++tries, budget += std::max(1, budget / kBudgetShare)) {
      const Cover cover = cut.at(budget);
      if (!cut.carries(cover)) continue;
      // A quick check first: most budgets that are too small fail it, and confirming takes longer.
      if (problem.options.rule == Rule::certified) {
        ++asked;
        if (!certify_cover(problem, stock, demand, cover, false).holds) continue;
        plan.verdict = certify_cover(problem, stock, demand, cover, true);
        if (!plan.verdict->holds) continue;
      }
      plan.service = problem.workload.services[demand.service].name;
      plan.edges = demand.edges;
      plan.rate_per_s = std::accumulate(demand.rate_per_s.begin(), demand.rate_per_s.end(), 0.0);
      plan.load_factor = cover_load_factor(cut.cover_service(), cover);
      for (std::size_t o = 0; o < cover.size(); ++o) {
        if (cover[o] > 0) plan.groups.push_back(replica_group(problem, stock, demand, demand.offers[o], cover[o]));
      }
      return cover;
    }
    return std::nullopt;
  }

  // Packs the covers of all services together. The search for cuts is that of pack(), so PARIS is not blamed for bad
  // packing.
  static PlanAnswer packed(const Problem& problem, const Stock& stock, const std::vector<Demand>& demands,
                           const std::vector<Cover>& covers, PlanAnswer answer) {
    const CoverModel model = cover_model(problem, stock, demands);
    // From here on only the numbers of slices of each kind count, not which service they are for.
    std::vector<int> need(stock.kinds.size(), 0);
    for (std::size_t s = 0; s < demands.size(); ++s) {
      for (std::size_t o = 0; o < covers[s].size(); ++o) need[demands[s].offers[o].kind] += covers[s][o];
    }
    const auto cuts = pack(model.problem, need, &answer.price);
    if (cuts.empty()) {
      const int count = problem.fleet.groups[0].count.value_or(0);
      return infeasible(
          "",
          fmt::format("the fleet has {} of {}, too few for the slices that PARIS chooses; add some, or lower the rates",
                      count, problem.fleet.groups[0].type));
    }
    answer.status = PlanStatus::planned;
    answer.plan = lay_out(problem, stock, model, cuts, demands, covers);
    answer.devices = static_cast<int>(answer.plan.devices.size());
    return answer;
  }
};

}  // namespace

std::unique_ptr<Planner> make_paris() { return std::make_unique<Paris>(); }

}  // namespace tangram::plan

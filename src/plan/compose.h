// From demands to a plan: the steps that all searching planners share.
#pragma once

#include <vector>

#include "plan/demand.h"

namespace tangram::plan {

// The slices that each service takes: by demand, then by offer.
struct Composition {
  std::vector<Demand> demands;
  std::vector<Cover> covers;
  std::vector<std::vector<int>> cuts;  // By group of the fleet and cut of it.
};

// The problem in the terms of Cover. Devices without any usable kind are left out of it; `groups` says which group each
// of its devices is.
struct CoverModel {
  CoverProblem problem;
  std::vector<std::size_t> groups;
};
CoverModel cover_model(const Problem& problem, const Stock& stock, const std::vector<Demand>& demands);

// Adds the slices of each device of the group that others use, and sorts all by their starts.
void add_reserved(const DeviceGroup& group, PlannedDevice& device);

// A demand in the terms of Cover, and the slices of a cover in the terms of a certifier.
CoverService cover_service(const Demand& demand);
std::vector<ReplicaGroup> groups_of(const Problem& problem, const Stock& stock, const Demand& demand,
                                    const Cover& cover);

// The price of a slice of each kind if every device were cut into that kind alone. A first guess, before a search knows
// what slices are worth.
std::vector<double> even_prices(const CoverProblem& problem);

// The demand of a service with the buckets whose cheapest cover costs least by these prices of kinds, and among equals
// the fewest buckets. `asked` counts the questions to the certifier.
Demand choose_demand(const Problem& problem, const Stock& stock, std::size_t service,
                     const std::vector<double>& kind_price, std::int64_t* asked);

// Whether the slices of `cover` have the capacity, before and after sizes drift.
bool carries(const Demand& demand, const Cover& cover);

// True in `holds` if the slices of `cover` keep the service's Slo, before and after sizes drift, according to the
// problem's certifier. A job is not simulated: it ends in time if its slices run its rows in time, and the reported
// latency is when it ends.
Verdict certify_cover(const Problem& problem, const Stock& stock, const Demand& demand, const Cover& cover,
                      bool confirm);

// Lays the slices out on devices. Every slice that a cover needs is there; slices that none needs are left free.
Plan lay_out(const Problem& problem, const Stock& stock, const CoverModel& model,
             const std::vector<std::vector<int>>& cuts, const std::vector<Demand>& demands,
             const std::vector<Cover>& covers);

// The same for replicas that are put together already: by kind, the replicas of each slice to be placed.
using SliceReplicas = std::vector<std::vector<std::vector<Replica>>>;
Plan lay_out(const Problem& problem, const Stock& stock, const CoverModel& model,
             const std::vector<std::vector<int>>& cuts, const SliceReplicas& wanted);

// Plans `problem` with the kinds of `stock`: chooses buckets for each service, covers all demands with the fewest
// devices, has every service certified where the rule asks for it, and lays the slices out.
PlanAnswer plan_by_cover(const Problem& problem, const Stock& stock);

}  // namespace tangram::plan

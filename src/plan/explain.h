// Why a plan is as large as it is, and what would make it smaller.
#pragma once

#include <string>
#include <vector>

#include "plan/problem.h"
#include "plan/shared_slices.h"

namespace tangram::plan {

// What each service costs: the price of the devices, each divided by the compute slices that services use on it. Sums
// to the price of the plan. In the order of the answer's services.
std::vector<double> service_costs(const Problem& problem, const PlanAnswer& answer);

// The price of a plan in the unit of the objective.
double plan_price(const Problem& problem, const Plan& plan);

// The plans that bound and proof are about: "plans in which each service has slices of its own, with these buckets".
std::string among_text(const PlanAnswer& answer);

// How far a longer Slo would help.
enum class ReliefBasis {
  planned,  // Planned again under the same rule: the plan can be had, and is certified where the rule is.
  bound,    // Of the plan with the longer Slo only the bound under Rule::no_waiting is known: no plan takes less.
};

struct Relief {
  std::string service;
  double slo_factor = 1.2;
  double price_before = 0;  // Of the plan that there is.
  double price_after = 0;   // With the longer Slo; for ReliefBasis::bound the least that it can be.
  ReliefBasis basis = ReliefBasis::planned;

  double saved() const { return price_before - price_after; }
};

struct ReliefOptions {
  double slo_factor = 1.2;
  // Under Rule::certified a service is planned again with the simulations that it is part of; the certifier remembers
  // the rest. Where these are more than about this for all services together, bounds are given instead.
  std::int64_t certifications_max = 600;
  // Each service is a plan of its own. Of more services than this, those with the largest share of the bound are tried.
  std::size_t services_max = 60;
};

// Plans once more for each service with its Slo made longer by `slo_factor`, all else equal. In the order of the
// workload; at most `services_max`; empty for Objective::headroom, where nothing is saved.
std::vector<Relief> slo_relief(const Problem& problem, const Planner& planner, const PlanAnswer& answer,
                               const ReliefOptions& options = {});

// Services of a plan that share slices.
struct SharedBlock {
  SharedSet set;
  double busy = 0;  // The share of their slices' time that the runs of all of them take, none of them waiting.
  // The service that would be first to need slices of its own: the one whose latency is nearest to its promise. Empty
  // where nothing was certified.
  std::string least_room = {};
};

// The blocks of several services, in the order of the plan.
std::vector<SharedBlock> shared_blocks(const Problem& problem, const PlanAnswer& answer);

// What its neighbours cost a service: its latency at the percentile of its Slo on the same slices, without and with
// them.
struct Neighbours {
  std::string service;
  std::size_t count = 0;
  Duration latency_alone{};
  Duration latency_shared{};
};

// Asks the certifier of the problem about each service that shares, alone on the same slices, for at most
// `services_max` of them, those nearest to their promises first. Empty without certificates.
std::vector<Neighbours> neighbours_of(const Problem& problem, const PlanAnswer& answer, std::size_t services_max = 200);

// "No plan needs less than 2.41 devices, so 2 do not suffice": in words, from the bound and what the services cost in
// it.
std::string why_not_fewer(const Problem& problem, const PlanAnswer& answer);

}  // namespace tangram::plan

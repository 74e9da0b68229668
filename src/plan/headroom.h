// How much the rates may grow on a fleet of fixed size.
#pragma once

#include "plan/spare.h"

namespace tangram::plan {

// The services at `factor` times their rates. Closed loops have no rate and stay as they are.
Workload scale_rates(Workload workload, double factor);

// Objective::headroom: the largest factor by which all rates may grow on the fleet, found to one part in a hundred, to
// two under Rule::certified, and the plan for it, with spares. Every verdict of the plan was confirmed at that factor;
// how often the certifier is asked is limited, so a larger factor may exist. Every group of the fleet says its count. A
// factor below one: the fleet does not carry the rates as they are. Bound and proof are left out: they are about
// devices. Services that are all closed loops have no rates, and are refused.
PlanAnswer plan_headroom(const Problem& problem, const PlanOnce& plan_once);

}  // namespace tangram::plan

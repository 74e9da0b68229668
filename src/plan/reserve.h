// Plans with something in hand: room to grow on a fleet of fixed size, and devices that may be lost.
#pragma once

#include <functional>

#include "plan/problem.h"

namespace tangram::plan {

// The services at `factor` times their rates. Closed loops have no rate and stay as they are.
Workload scale_rates(Workload workload, double factor);

using PlanOnce = std::function<PlanAnswer(const Problem&)>;

// What `plan_once` answers, with what the problem asks beyond it.
//
// SparePolicy::one_device: replicas are spread over devices, and devices are added, until every service has the
// capacity that it needs when any one device is lost; under Rule::certified until its promise was also confirmed
// without each of them. The bound is that of the plan without spares and the cheapest device together: what is left
// after a loss is a plan.
//
// Objective::price: devices may cost nothing if there is a count of them and others cost something.
//
// Objective::headroom: the largest factor by which all rates may grow on the fleet, found to one part in a hundred, to
// two under Rule::certified, and the plan for it. Every verdict of the plan was confirmed at that factor; how often the
// certifier is asked is limited, so a larger factor may exist. Every group of the fleet says its count. A factor below
// one: the fleet does not carry the rates as they are. Bound and proof are left out: they are about devices. Services
// that are all closed loops have no rates, and are refused.
PlanAnswer plan_with_reserve(const Problem& problem, const PlanOnce& plan_once);

}  // namespace tangram::plan

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
// capacity that it needs when any one device is lost; that its promise is then also kept while requests wait is not
// certified. The bound is that of the plan without spares.
//
// Objective::headroom: the largest factor by which all rates may grow on the fleet, found to one part in a hundred, and
// the plan for it. Every group of the fleet says its count. A factor below one: the fleet does not carry the rates as
// they are.
PlanAnswer plan_with_reserve(const Problem& problem, const PlanOnce& plan_once);

}  // namespace tangram::plan

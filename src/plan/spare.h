// Plans that survive the loss of any one device.
#pragma once

#include <functional>

#include "plan/problem.h"

namespace tangram::plan {

// One way of planning, for the rates and prices of the problem as they are.
using PlanOnce = std::function<PlanAnswer(const Problem&)>;

// What `plan_once` answers, with spare devices if the fleet asks for them.
//
// SparePolicy::one_device: replicas are spread over devices, and devices are added, until every service has the
// capacity that it needs when any one device is lost; under Rule::certified until its promise was also confirmed
// without each of them. The bound is that of the plan without spares and the cheapest device together: what is left
// after a loss is a plan.
PlanAnswer plan_with_spare(const Problem& problem, const PlanOnce& plan_once);

}  // namespace tangram::plan

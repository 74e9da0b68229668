// From one way of planning to a planner: spares and objectives, which all planners share.
#pragma once

#include "plan/spare.h"

namespace tangram::plan {

// What `plan_once` answers, with what the problem asks beyond it: spare devices (see plan_with_spare) and the
// objective.
//
// Objective::devices: the price of every device is one.
// Objective::price: devices may cost nothing if there is a count of them and others cost something.
// Objective::headroom: see plan_headroom.
PlanAnswer plan_for_objective(const Problem& problem, const PlanOnce& plan_once);

}  // namespace tangram::plan

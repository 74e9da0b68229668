// The answer that there is no plan.
#pragma once

#include <string>
#include <utility>

#include "plan/problem.h"

namespace tangram::plan::detail {

// `service`: the one that cannot be served, or empty if it is not one alone. `reason`: with the nearest change that
// would help.
inline PlanAnswer no_plan(std::string service, std::string reason) {
  PlanAnswer none;
  none.service = std::move(service);
  none.reason = std::move(reason);
  return none;
}

}  // namespace tangram::plan::detail

// What-if questions about the plan that a server serves, answered by the planner of `tangram plan`.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "core/fleet.h"
#include "core/latency_model.h"
#include "core/plan.h"
#include "core/workload.h"
#include "serve/page_desk.h"

namespace tangram::cli {

// What is needed to plan again. Without a fleet, any number of the device types of the plan may be used.
struct WhatIfBase {
  std::optional<Fleet> fleet;
  Plan plan;  // Empty where a fleet is given.
  Workload workload;
  std::shared_ptr<const LatencyModel> latency;
};

// Plans for the services as they are and for the change, under the rule `certified`, and says how both differ. The
// search is limited like one of --replan: a few seconds for a dozen services.
std::function<Result<serve::WhatIfAnswer>(const serve::WhatIfQuestion&)> make_what_if(WhatIfBase base);

}  // namespace tangram::cli

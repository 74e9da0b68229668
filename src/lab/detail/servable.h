// What a plan cannot serve, whatever the load.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/workload.h"
#include "sched/deployment.h"

namespace tangram::lab {

// The services that no slice of any of the plans runs.
std::vector<std::string> services_without_replica(const Workload& workload,
                                                  std::span<const sched::Deployment* const> plans);

// A sentence for every service of which some requests are never answered in time by any of the plans: their size or
// their number of samples fits no bucket, or the fastest slice takes longer for one alone than the promise. Predicted
// means are compared, as admission does.
std::vector<std::string> doubts(const Workload& workload, std::span<const sched::Deployment* const> plans);

}  // namespace tangram::lab

// How many requests a second a replica can take, by predicted run times.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/latency_model.h"
#include "core/plan.h"
#include "core/workload.h"
#include "plan/live_fleet.h"

namespace tangram::plan {

// Requests a second of the mix of input sizes that the replica takes, in full batches, while the other replicas on its
// slice take equal shares of the time. Zero if the service is not in the workload or the model does not know the run.
//
// The answer depends on the replica, its slice and the workload alone, so that a plan has the same capacity beside any
// other plan: the smallest bucket of a replica counts with all inputs up to its edge, also where another replica of the
// plan takes the shortest of them.
//
// A service has one number. If its replicas take different buckets, this number does not show that one bucket runs
// short while the others have room.
//
// `workload` and `model` outlive the function.
Capacity capacity_by(const Workload& workload, const LatencyModel& model);

// Replicas of the plan whose capacity is zero, each kind once: "speech on 1g.10gb of a100-80gb, batch 8".
std::set<std::string> without_run_times(const Plan& plan, const Workload& workload, const LatencyModel& model);

}  // namespace tangram::plan

// Plans in which services share slices.
//
// A plan divides the services into blocks: all services of a block are on all slices of the block, and one process of
// each slice keeps the weights of all of them. A block of one service is a service with slices of its own. Given the
// blocks, planning is the covering problem that it is without sharing (cover.h), with a block in the place of a
// service. What is new is the choice of the blocks: all of them are tried where services are few, and a packing by the
// prices of a linear program where they are many.
#pragma once

#include <string>
#include <vector>

#include "plan/demand.h"

namespace tangram::plan {

// The best of what plan_by_cover() finds and of plans with shared slices. The bound holds for every plan with the same
// buckets and batches, whoever shares with whom: it counts work, memory and blocking. A service that may not share, by
// its isolation or because the memory of its model is not known, keeps slices of its own; PlanAnswer::notes says so.
PlanAnswer plan_sharing(const Problem& problem, const Stock& stock);

// Why the service keeps slices of its own wherever services may share: "its isolation is own_slices". Empty: it may
// share.
std::string why_not_shared(const Problem& problem, const Service& service);

// What a services file may say and probably does not mean: a tenant of one service only whose name is nearly that of
// another tenant, so that the service shares with none of the services it was to share with. One sentence each.
std::vector<std::string> tenant_doubts(const Workload& workload);

}  // namespace tangram::plan

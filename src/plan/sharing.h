// Plans in which services share slices.
//
// A plan divides the services into blocks: all services of a block are on all slices of the block, and one process of
// each slice keeps the weights of all of them. A block of one service is a service with slices of its own. Given the
// blocks, planning is the covering problem that it is without sharing (cover.h), with a block in the place of a
// service. What is new is the choice of the blocks: all of them are tried where services are few, and a packing by the
// prices of a linear program where they are many.
#pragma once

#include "plan/demand.h"

namespace tangram::plan {

// The best of what plan_by_cover() finds and of plans with shared slices. The bound holds for every plan with the same
// buckets and batches, whoever shares with whom: it counts work, memory and blocking. A service that may not share, by its
// isolation or because the memory of its model is not known, keeps slices of its own; PlanAnswer::notes says so.
PlanAnswer plan_sharing(const Problem& problem, const Stock& stock);

}  // namespace tangram::plan

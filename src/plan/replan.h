// A new plan for a workload that changed a little, close to the plan that is running.
#pragma once

#include <string>
#include <vector>

#include "plan/problem.h"

namespace tangram::plan {

struct ReplanOptions {
  int neighbours_max = 8;   // Services besides the changed ones that may be given other slices.
  int covers_max = 60;      // Ways to serve each of those that are looked at.
  double worse_max = 0.02;  // How much dearer than a plan from scratch the new one may be, as a share of the bound.
  std::int64_t nodes_max = 150;  // Of the search.
};

struct Replanned {
  PlanAnswer answer;                 // Devices keep their names, and services that stay keep their slices.
  std::vector<std::string> changed;  // Services that are new or whose rate, promise, model or buckets made them open.
  bool from_scratch = false;  // Staying close would have been too dear, or there was too little to stay close to.
  int replicas_moved = 0;     // Loaded on a slice on which they were not, of services that did not change.
  int replicas_loaded = 0;    // The same of all services.
  int devices_recut = 0;      // Of those that were there before, not counting those given back.
  double scratch_price = 0;   // Of the plan from scratch that it is compared with.
};

// A plan that was read from a file, as the running plan of `problem`: the slices and buckets of each service that it
// serves. With a certifier only services whose promises hold on their slices at the rates of the problem count as
// served; the others are planned like new ones.
PlanAnswer as_running(const Problem& problem, const Plan& plan);

// Plans `problem` such that little of `previous` moves. Only services that changed and a few neighbours are searched
// over; the others keep their slices. The bound is that of the whole problem. Under Rule::certified only services that
// get other slices are certified; the bound then rests on capacity for the others, and a high price is no reason to
// plan from scratch. Where services share slices, before or after, the answer is the running plan, if it keeps all
// promises at the new rates and costs hardly more, or else a plan from scratch. For Objective::headroom and with spare
// devices the answer is that of planner `elastic`, with a new layout.
Replanned replan(const Problem& problem, const PlanAnswer& previous, const ReplanOptions& options = {});

}  // namespace tangram::plan

// Who shares slices with whom in an existing plan.
#pragma once

#include <string>
#include <vector>

#include "plan/problem.h"

namespace tangram::plan {

// Services that are connected by slices that they share, and all their slices. Services a and b on one slice and b and
// c on another are one set, although a and c never meet: to judge one of them, all have to be simulated.
struct SharedSet {
  std::vector<std::string> services;  // In the order of their first replica.
  std::vector<SharedGroup> groups;    // Slices that are alike, in the order of the plan.

  bool shares() const { return services.size() > 1; }
};

// Every service of the plan is in exactly one set, by itself if all its slices are its own. In the order of the plan.
std::vector<SharedSet> shared_sets(const Plan& plan);

// How many slices a set has.
int slices_in(const SharedSet& set);

// Certifies a set as a whole: a verdict for each of its services, in their order. A service alone is asked about with
// certify(), and a service whose sizes drift before and after the drift; the worse verdict counts. Requires that all
// services of the set are in the workload and that none of several is a job.
std::vector<Verdict> certify_set(Certifier& certifier, const Workload& workload, const SharedSet& set, bool confirm);

}  // namespace tangram::plan

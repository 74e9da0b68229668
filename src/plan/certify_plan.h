// An existing plan, certified again.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/problem.h"

namespace tangram::plan {

struct CertifiedService {
  std::string service;
  std::vector<ReplicaGroup> groups;  // All replicas of the service in the plan.
  std::optional<Verdict> verdict;    // Nothing: it cannot be certified, for the reason below.
  std::string reason = {};
};

struct CertifiedPlan {
  std::vector<CertifiedService> services;  // In the order of the workload.

  bool all_hold() const;
};

// Asks `certifier` about every service of the problem on the slices that `plan` gives it, as a confirmation. A service
// without replicas does not hold. A service that shares a slice with another one has no verdict: it was not simulated
// together with the other. `begun` is told the name of each service before it is simulated.
CertifiedPlan certify_plan(const Problem& problem, const Plan& plan, Certifier& certifier,
                           const std::function<void(const std::string& service)>& begun = {});

// The replicas of a service by kind of slice, in the order of the plan. Sets `shared` if one of its slices holds
// replicas of another service.
std::vector<ReplicaGroup> groups_in(const Plan& plan, const std::string& service, bool* shared);

}  // namespace tangram::plan

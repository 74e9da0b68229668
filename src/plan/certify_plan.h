// An existing plan, certified again.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/problem.h"
#include "plan/shared_slices.h"

namespace tangram::plan {

struct CertifiedService {
  std::string service = {};
  std::vector<ReplicaGroup> groups = {};      // All replicas of the service in the plan.
  std::vector<std::string> shares_with = {};  // The services that its verdict depends on; see SharedSet.
  std::optional<Verdict> verdict = {};        // Nothing: it cannot be certified, for the reason below.
  std::string reason = {};
};

struct CertifiedPlan {
  std::vector<CertifiedService> services;  // In the order of the workload.

  bool all_hold() const;
};

// Asks `certifier` about every service of the problem on the slices that `plan` gives it, as a confirmation. Services
// that share slices are asked about together. A service without replicas does not hold, and neither does one that sends
// more than its `rate_max_per_s` lets through, nor one that shares a slice with a job. `begun` is told the name of each
// service before it is simulated.
CertifiedPlan certify_plan(const Problem& problem, const Plan& plan, Certifier& certifier,
                           const std::function<void(const std::string& service)>& begun = {});

// The replicas of one service of a set by kind of slice, in the order of the plan.
std::vector<ReplicaGroup> groups_in(const SharedSet& set, const std::string& service);

}  // namespace tangram::plan

// Reads the slices of each service from a plan and asks the certifier about them, as compose.cc does for its own
// covers.

#include "plan/certify_plan.h"

#include <algorithm>

#include "plan/demand.h"

namespace tangram::plan {
namespace {

// Sizes that drift are certified before and after the drift; the verdict is that of the worse end.
Verdict certify_both_ends(Certifier& certifier, const Service& service, const std::vector<ReplicaGroup>& groups) {
  if (!service.size_drift) return certifier.certify(service, groups, true);
  const Verdict before = certifier.certify(before_drift(service), groups, true);
  const Verdict after = certifier.certify(after_drift(service), groups, true);
  if (before.holds != after.holds) return before.holds ? after : before;
  return before.attainment < after.attainment ? before : after;
}

// A job has one deadline for all rows, so its capacity decides; check_plan() looks at that.
Verdict verdict_of_job() {
  return {.holds = true, .attainment = 1, .attainment_low = 1, .attainment_high = 1, .view = "long run"};
}

}  // namespace

bool CertifiedPlan::all_hold() const {
  return std::ranges::all_of(services, [](const CertifiedService& s) { return s.verdict && s.verdict->holds; });
}

std::vector<ReplicaGroup> groups_in(const Plan& plan, const std::string& service, bool* shared) {
  std::vector<ReplicaGroup> groups;
  for (const auto& device : plan.devices) {
    for (const auto& slice : device.slices) {
      for (const auto& replica : slice.replicas) {
        if (replica.service != service) continue;
        *shared = *shared || slice.replicas.size() > 1;
        const MigProfile& profile = device.geometry.profiles[slice.slice.profile];
        const auto same = std::ranges::find_if(groups, [&](const ReplicaGroup& group) {
          return group.device_type == device.type && group.mig_profile == profile.name && group.replica == replica;
        });
        if (same != groups.end()) {
          ++same->count;
        } else {
          groups.push_back({device.type, profile.name, profile.compute_slices, replica, 1});
        }
      }
    }
  }
  return groups;
}

CertifiedPlan certify_plan(const Problem& problem, const Plan& plan, Certifier& certifier,
                           const std::function<void(const std::string& service)>& begun) {
  CertifiedPlan answer;
  for (const auto& service : problem.workload.services) {
    if (begun) begun(service.name);
    bool shared = false;
    CertifiedService& certified = answer.services.emplace_back();
    certified.service = service.name;
    certified.groups = groups_in(plan, service.name, &shared);
    if (certified.groups.empty()) {
      certified.reason = "the plan has no replica of it";
    } else if (shared) {
      certified.reason = "it shares a slice with another service";
    } else {
      certified.verdict = service.job ? verdict_of_job() : certify_both_ends(certifier, service, certified.groups);
    }
  }
  return answer;
}

}  // namespace tangram::plan

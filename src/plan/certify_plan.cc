// Reads the slices of each service from a plan and asks the certifier about them, as compose.cc does for its own
// covers. Services that share slices are asked about together.

#include "plan/certify_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plan/demand.h"

namespace tangram::plan {
namespace {

const Service* find_service(const Workload& workload, const std::string& name) {
  const auto found = std::ranges::find(workload.services, name, &Service::name);
  return found == workload.services.end() ? nullptr : &*found;
}

// A job has one deadline for all rows, so its capacity decides; check_plan() looks at that.
Verdict verdict_of_job() {
  return {.holds = true, .attainment = 1, .attainment_low = 1, .attainment_high = 1, .view = "long run"};
}

// Rates within this factor are equal: a plan file has fewer digits than a rate.
constexpr double kRateTolerance = 1 + 1e-6;

// Why a service cannot be certified with the slices that it has, or nothing.
std::string why_not(const Problem& problem, const SharedSet& set, const Service& service) {
  if (!set.shares()) return {};
  for (const auto& name : set.services) {
    const Service* other = find_service(problem.workload, name);
    if (other == nullptr) return fmt::format("it shares slices with {}, which is not among the services", name);
    if (other->job && other == &service) return "it is a job and shares a slice, which is not simulated";
    if (other->job) return fmt::format("it shares slices with the job {}, which is not simulated", name);
  }
  return {};
}

// What the scheduler would reject at the rates of the problem: the promise is kept for the rest alone.
std::string why_rejected(const Problem& problem, const SharedSet& set, const Service& service) {
  double limit = 0;
  for (const auto& group : set.groups) {
    if (group.replicas.size() < 2) continue;
    for (const auto& replica : group.replicas) {
      if (replica.service == service.name) limit = std::max(limit, replica.rate_max_per_s.value_or(0));
    }
  }
  const double rate = problem.options.demand_factor * neighbour_rate_per_s(service);
  if (limit == 0 || rate <= limit * kRateTolerance) return {};
  return fmt::format("the plan has room for {:.4g} requests/s of it, and it sends up to {:.4g}", limit, rate);
}

// Fills in the verdicts of one set, or the reasons why there are none.
void certify_services(const Problem& problem, const SharedSet& set, Certifier& certifier,
                      std::map<std::string, CertifiedService>& certified) {
  std::vector<std::string> reasons;
  for (const auto& name : set.services) {
    const Service* service = find_service(problem.workload, name);
    reasons.push_back(service == nullptr ? "" : why_not(problem, set, *service));
  }
  const Service* first = find_service(problem.workload, set.services[0]);
  const bool asked = reasons[0].empty() && first != nullptr;
  std::vector<Verdict> verdicts;
  if (asked) {
    verdicts = first->job ? std::vector{verdict_of_job()} : certify_set(certifier, problem.workload, set, true);
  }
  for (std::size_t i = 0; i < set.services.size(); ++i) {
    CertifiedService& service = certified[set.services[i]];
    service.reason = reasons[i];
    if (!asked) continue;
    service.reason = why_rejected(problem, set, *find_service(problem.workload, set.services[i]));
    if (service.reason.empty()) service.verdict = verdicts[i];
  }
}

}  // namespace

bool CertifiedPlan::all_hold() const {
  return std::ranges::all_of(services, [](const CertifiedService& s) { return s.verdict && s.verdict->holds; });
}

std::vector<ReplicaGroup> groups_in(const SharedSet& set, const std::string& service) {
  std::vector<ReplicaGroup> groups;
  for (const auto& [device_type, mig_profile, compute_slices, replicas, count] : set.groups) {
    for (const auto& replica : replicas) {
      if (replica.service != service) continue;
      const auto same = std::ranges::find_if(groups, [&](const ReplicaGroup& group) {
        return group.device_type == device_type && group.mig_profile == mig_profile && group.replica == replica;
      });
      if (same != groups.end()) {
        same->count += count;
      } else {
        groups.push_back({device_type, mig_profile, compute_slices, replica, count});
      }
    }
  }
  return groups;
}

CertifiedPlan certify_plan(const Problem& problem, const Plan& plan, Certifier& certifier,
                           const std::function<void(const std::string& service)>& begun) {
  std::map<std::string, CertifiedService> certified;
  for (const auto& set : shared_sets(plan)) {
    for (const auto& name : set.services) {
      if (begun) begun(name);
      CertifiedService& service = certified[name];
      service.groups = groups_in(set, name);
      for (const auto& other : set.services) {
        if (other != name) service.shares_with.push_back(other);
      }
    }
    certify_services(problem, set, certifier, certified);
  }
  CertifiedPlan answer;
  for (const auto& service : problem.workload.services) {
    const auto found = certified.find(service.name);
    answer.services.push_back(found != certified.end() ? found->second
                                                       : CertifiedService{.reason = "the plan has no replica of it"});
    answer.services.back().service = service.name;
  }
  return answer;
}

}  // namespace tangram::plan

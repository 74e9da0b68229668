#include "cli/training_lending.h"

#include <algorithm>

#include "lab/needs.h"

namespace tangram::cli {
namespace {

// Every slice of the plan that serves is a place of the deployment, and services are the same.
bool same_plan(const Plan& plan, const Workload& workload, const sched::Deployment& deployment) {
  const bool services =
      std::ranges::equal(workload.services, deployment.services, {}, &Service::name, &sched::DeployedService::name);
  if (!services || plan.devices.size() != deployment.devices.size()) return false;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    for (const auto& planned : plan.devices[d].slices) {
      const bool found = std::ranges::any_of(deployment.places, [&](const sched::Place& place) {
        return place.device.index() == d && place.slice == planned.slice;
      });
      if (!found && !planned.replicas.empty()) return false;
    }
  }
  return true;
}

}  // namespace

void LendingTables::set(const Plan& plan, const Workload& workload, std::shared_ptr<const LatencyModel> latency) {
  auto served = std::make_shared<const Served>(Served{plan, workload, std::move(latency)});
  const std::lock_guard lock(mutex_);
  served_ = std::move(served);
}

std::vector<sched::ServiceNeeds> LendingTables::make(const sched::Deployment& deployment) const {
  std::shared_ptr<const Served> served;
  {
    const std::lock_guard lock(mutex_);
    served = served_;
  }
  if (served == nullptr || !same_plan(served->plan, served->workload, deployment)) return {};
  return lab::certified_needs(served->plan, served->workload, deployment, *served->latency, {});
}

}  // namespace tangram::cli

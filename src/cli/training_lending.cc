#include "cli/training_lending.h"

#include "control/replanner.h"
#include "lab/needs.h"

namespace tangram::cli {

void LendingTables::set(const Plan& plan, const Workload& workload, std::shared_ptr<const LatencyModel> latency) {
  auto served = std::make_shared<const Served>(Served{plan, nullptr, workload, std::move(latency)});
  const std::lock_guard lock(mutex_);
  served_ = std::move(served);
}

void LendingTables::set(std::shared_ptr<const control::Standing> standing, const std::vector<Service>& services,
                        std::shared_ptr<const LatencyModel> latency) {
  auto served = std::make_shared<const Served>(Served{{}, std::move(standing), {services}, std::move(latency)});
  const std::lock_guard lock(mutex_);
  served_ = std::move(served);
}

sched::LendingPlan LendingTables::make() const {
  std::shared_ptr<const Served> served;
  {
    const std::lock_guard lock(mutex_);
    served = served_;
  }
  if (served == nullptr || (served->standing != nullptr && !served->standing->plan)) return {};
  Workload workload = served->workload;
  if (served->standing != nullptr) {
    if (served->standing->planned.size() != workload.services.size()) return {};
    for (std::size_t s = 0; s < workload.services.size(); ++s) {
      workload.services[s] = control::steady_service(workload.services[s], served->standing->planned[s]);
    }
  }
  const Plan& plan = served->standing != nullptr ? served->standing->plan->plan : served->plan;
  auto deployment = sched::compile(plan, workload, *served->latency);
  if (!deployment) return {};
  sched::LendingPlan lending{std::make_shared<const sched::Deployment>(std::move(*deployment)), {}};
  lending.needs = lab::certified_needs(plan, workload, *lending.deployment, *served->latency, {});
  return lending;
}

}  // namespace tangram::cli

// What `tangram serve --training` needs beyond a server: which slices the services can spare at which rate.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/latency_model.h"
#include "core/plan.h"
#include "core/workload.h"
#include "sched/lending.h"

namespace tangram::cli {

// The plan that is served, or is about to be, as tables of needs are made from it. Any thread.
class LendingTables {
 public:
  void set(const Plan& plan, const Workload& workload, std::shared_ptr<const LatencyModel> latency);
  // Certifies by simulation, which takes seconds. Empty: the deployment is not of this plan, so nothing may be lent.
  std::vector<sched::ServiceNeeds> make(const sched::Deployment& deployment) const;

 private:
  struct Served {
    Plan plan;
    Workload workload;
    std::shared_ptr<const LatencyModel> latency;
  };
  mutable std::mutex mutex_;
  std::shared_ptr<const Served> served_;  // Null: nothing was set.
};

}  // namespace tangram::cli

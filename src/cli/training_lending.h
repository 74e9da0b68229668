// What `tangram serve --training` needs beyond a server: which slices the services can spare at which rate.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "control/controller.h"
#include "core/latency_model.h"
#include "core/plan.h"
#include "core/workload.h"
#include "sched/lending.h"

namespace tangram::cli {

// The plan that is served, or is about to be, as tables of needs are made from it. Any thread.
class LendingTables {
 public:
  void set(const Plan& plan, const Workload& workload, std::shared_ptr<const LatencyModel> latency);
  // The same for a plan of a server that follows its traffic: the rates and sizes are those that it was made for, by
  // ServiceId. Copies nothing that is large.
  void set(std::shared_ptr<const control::Standing> standing, const std::vector<Service>& services,
           std::shared_ptr<const LatencyModel> latency);
  // Certifies by simulation, which takes seconds. Nothing may be lent where the plan cannot be compiled.
  sched::LendingPlan make() const;

 private:
  struct Served {
    Plan plan;
    std::shared_ptr<const control::Standing> standing;  // Instead of `plan`, unless it is null.
    Workload workload;
    std::shared_ptr<const LatencyModel> latency;
  };
  mutable std::mutex mutex_;
  std::shared_ptr<const Served> served_;  // Null: nothing was set.
};

}  // namespace tangram::cli

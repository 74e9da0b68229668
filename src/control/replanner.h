// Makes the plan that follows the running one when demands change.
//
// Each plan stays close to the one before: services that did not change keep their slices, and a device that must be
// recut is replaced by a free one while the fleet has one, so that the old slices serve until the new ones do.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "control/demand.h"
#include "plan/difference.h"
#include "plan/problem.h"
#include "sched/deployment.h"
#include "sched/roster.h"

namespace tangram::control {

// A plan that came into force, and what it took to get there.
struct PlanStep {
  TimePoint at;
  std::vector<std::string> reasons;  // "rank-answers: rate 12.1 -> 14.6"
  int devices = 0;
  int compute_slices = 0;
  int devices_recut = 0;    // Of those that stay in use.
  int replicas_loaded = 0;  // On slices where they were not.
  bool from_scratch = false;
};

// What `target` has, and what it takes to get there from `from`.
PlanStep step_between(const Plan& from, const Plan& target);

// True if what the device is to become should be prepared on a free device instead: it keeps no replica, or some
// service would be without any slice while it is cut. Such a device loads what it keeps once more, elsewhere.
bool is_better_replaced(const plan::Difference& difference, const plan::DeviceDifference& device);

// Where the fleet has no free device for `device` of `target`: gives each slice without which a service would not be
// served while the device is cut to another device of the same group that has room for it and only gains slices. It is
// there before the old one goes. What finds no room is left in place.
void place_elsewhere(const plan::Difference& difference, const Fleet& fleet, const std::string& device, Plan& target);

// The service as it is planned for at this demand, for those who certify something of the plan. Traffic that has bursts
// keeps its shape and its mean rate.
Service steady_service(const Service& service, const ServiceDemand& demand);

struct NewPlan {
  plan::PlanAnswer answer;
  sched::Deployment deployment;
  PlanStep step;  // Without time and reasons, which the controller adds.
};

class Replanner {
 public:
  // `problem` holds the fleet, the services, the latency model, the rule and, for Rule::certified, the certifier. What
  // it points to outlives this. Rates and input sizes of its services are replaced by those of each demand.
  explicit Replanner(plan::Problem problem)
      : problem_(std::move(problem)), removed_(problem_.workload.services.size(), false) {}

  // From now on plans are for these services. Demands have an entry for each of them, also for those that were removed.
  void set_roster(sched::Roster roster);
  bool removed(std::size_t service) const { return removed_[service]; }

  // Plans for `demand`, which has an entry for each service, and takes the answer for the running plan from then on.
  // `remixed[s]` says that the sizes of service s have changed: its buckets are chosen again. Nothing if the fleet
  // cannot carry the demand; reason() then says why, and the running plan stays. The first call plans from nothing.
  // Cost: that of a planner, seconds for a large fleet.
  Result<std::optional<NewPlan>> plan(const std::vector<ServiceDemand>& demand, const std::vector<bool>& remixed);

  // These devices cannot be used until the next call. The next plan is made from nothing, for the others; where the
  // fleet keeps a spare and is too small for that now, it is made without one.
  void set_lost(std::set<std::string> devices);
  const std::set<std::string>& lost() const { return lost_; }
  // True if the running plan has a replica on the device.
  bool uses(const std::string& device) const;

  const std::string& reason() const { return reason_; }
  // The running plan, from which the next one starts; nothing before the first.
  const std::optional<plan::PlanAnswer>& running() const { return current_; }
  // Another plan runs than the last one that was made: that was not put in force, or an earlier one is again.
  void set_running(std::optional<plan::PlanAnswer> plan) { current_ = std::move(plan); }
  // By ServiceId, with those that were removed.
  const std::vector<Service>& services() const { return problem_.workload.services; }

 private:
  // The fleet without the lost devices.
  Fleet fleet_left() const;
  // The plan from nothing.
  plan::PlanAnswer plan_anew(plan::Problem problem) const;
  // A plan from nothing, where that takes fewer cores than `answer`. Only for fleets of hosts: programs beside us can
  // use the cores that are left, while a GPU of which a slice is used is used.
  std::optional<plan::PlanAnswer> on_fewer_cores(const plan::Problem& problem, const plan::PlanAnswer& answer) const;
  // Gives the devices of `target` that have the name of a lost one another name.
  void avoid_lost(Plan& target) const;
  // The problem with the rates and sizes of `demand`, without the services that were removed.
  plan::Problem problem_for(const std::vector<ServiceDemand>& demand) const;
  // The running plan without the services that are `remixed`, which are then planned like new ones, and without those
  // that were removed. Requires a plan.
  plan::PlanAnswer previous_without(const std::vector<bool>& remixed) const;
  // Gives the roles of `answer` to devices such that little moves, compiles it, and makes it the running plan.
  Result<std::optional<NewPlan>> adopt(plan::PlanAnswer answer, bool from_scratch);
  // Moves the role of each device of `target` that keeps no running slice to a free device of the fleet, if there is
  // one; where there is none, the slices of services that would not be served meanwhile to devices that have room.
  void make_before_break(const plan::Difference& difference, Plan& target) const;
  // The first device of the fleet that may take the role of `device` and whose name is not in `taken`; empty if there
  // is none.
  std::string free_name(const PlannedDevice& device, const std::set<std::string>& taken) const;

  plan::Problem problem_;                    // Its services by ServiceId.
  std::vector<bool> removed_;                // By ServiceId.
  std::optional<plan::PlanAnswer> current_;  // The running plan.
  std::string reason_;                       // Why the last demand could not be carried.
  std::set<std::string> lost_;               // Names of devices.
};

}  // namespace tangram::control

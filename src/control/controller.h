// The controller that follows traffic: it takes observations and occasionally answers a new plan.
//
// It watches every service (ServiceWatch) and replans (Replanner) when the running plan no longer fits. It reads no
// clock and starts nothing by itself: the simulator or the live gateway calls observe() every observe_interval() and
// puts the plan that it answers in force.
//
// Example: with windows of five minutes and looks of ten seconds, the calls at 10 s, 20 s, ... 290 s only answer a
// surge; the call at 300 s ends the window and may also answer that rates fell or sizes changed. A call that comes
// late, because the planner was busy, covers the time since the one before.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/observation.h"
#include "control/replanner.h"
#include "control/service_watch.h"

namespace tangram::control {

struct ControllerOptions {
  Duration interval = std::chrono::minutes(5);  // Of a window. Shorter ones follow chance: at 10 requests/s, five
                                                // minutes are 3,000 requests, whose rate is known within 2 %.
  Duration look = std::chrono::seconds(10);     // Between two looks for surges; 0: no looks.
  ServiceWatch::Options watch;
};

// What a controller plans from: the running plan, and what it was made for.
struct Standing {
  std::optional<plan::PlanAnswer> plan;
  std::vector<ServiceDemand> planned;  // By service.
};

class Controller {
 public:
  // `replanner` has made the plan that is running, for `planned`, which has an entry for each of its services.
  Controller(const ControllerOptions& options, Replanner replanner, std::vector<ServiceDemand> planned);

  // How often observe() wants to be called.
  Duration observe_interval() const { return looks() ? options_.look : options_.interval; }

  // What happened since the last call, for the services of the replanner in their order. Answers the plan to put in
  // force, with its reasons and its time; nothing while the running plan fits, while the last one is still moving, or
  // if the fleet cannot carry what is wanted.
  std::optional<NewPlan> observe(const Observation& seen);
  // The same, but a plan for what is expected now is made in any case.
  std::optional<NewPlan> plan_now(const Observation& seen);

  // Devices are lost, or back: `lost` are all that cannot be used now. Answers a plan for what is left, if it is
  // needed. Where that is too little, services give way in the order of their priorities, the lowest first, down to a
  // fiftieth of their rates.
  std::optional<NewPlan> set_lost(std::set<std::string> lost, TimePoint at);

  // The services change: `roster` has all ids that are known and perhaps further ones, `demand` by ServiceId what those
  // that are new or described otherwise are planned for at first; the others keep their forecasts. Answers a plan for
  // them, also if nothing but the descriptions changed. Errors: the fleet cannot carry it, or the run times of a model
  // are not known; nothing has changed then.
  Result<NewPlan> set_roster(sched::Roster roster, const std::vector<std::optional<ServiceDemand>>& demand);
  // What is remembered of each service across a restart, by ServiceId.
  std::vector<ServiceWatch::Memory> memory() const;
  void recall(std::size_t service, const ServiceWatch::Memory& memory) { watches_[service].recall(memory); }
  // Ids, with those of services that were removed.
  std::size_t service_count() const { return watches_.size(); }

  // observe() takes the plan that it answers for the running one. Whoever does not put it in force, or returns to an
  // earlier one, gives back the standing of the plan that runs.
  Standing standing() const;
  void set_standing(Standing standing);

  // How often the fleet could not carry what was wanted: the plan stayed as it was.
  int plans_refused() const { return plans_refused_; }
  // Why the last of these was.
  const std::string& refusal() const { return replanner_.reason(); }

 private:
  // True if there are looks between windows.
  bool looks() const { return options_.look > Duration::zero() && options_.look < options_.interval; }
  // True if the look that ends at `at` is the last of its window. Looks need not divide a window evenly: the first one
  // at its end or after it counts.
  bool ends_window(TimePoint at) const {
    return (at - kTimeZero) / options_.interval > (window_begin_ - kTimeZero) / options_.interval;
  }
  // Counts `seen` for the window that goes on and lets the watches look at it. Returns the length of that window so
  // far.
  Duration take_in(const Observation& seen);
  // Plans for the services whose rates jumped, the others as they are planned. Only ever for more.
  std::optional<NewPlan> meet_surges(const Observation& seen);
  // Lets each service's watch judge the window, and plans for those that have a reason.
  std::optional<NewPlan> end_window(const Observation& window, Duration length);
  // Plans for `demand`, or for as much of it as the fleet carries if those with low priority give way. Says in
  // `reasons` who does.
  std::optional<NewPlan> plan_for_what_is_left(std::vector<ServiceDemand>& demand, std::vector<std::string>& reasons);
  // Asks the replanner; nothing, and counted, if the fleet cannot carry it.
  std::optional<NewPlan> plan_or_stay(const std::vector<ServiceDemand>& demand, const std::vector<bool>& remixed);

  // What becomes of a service, in words that follow its name; empty if nothing does.
  std::string change_of(std::size_t s, const Service& next, bool gone, bool other_demand) const;
  // What the newest window asks for, or what a surge does; 0 for a service that was removed.
  std::vector<ServiceDemand> expected_or_surge() const;

  ControllerOptions options_;
  Replanner replanner_;
  std::vector<ServiceWatch> watches_;  // One for each service, in the order of the replanner's.
  Observation window_;                 // Everything observed since the last window ended.
  TimePoint window_begin_;             // When that was.
  TimePoint seen_at_;                  // The last observation.
  int plans_refused_ = 0;
  bool short_of_devices_ = false;  // The last plan after a loss is for less than is wanted, or there is none.
};

}  // namespace tangram::control

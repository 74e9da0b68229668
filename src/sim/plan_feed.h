// Plans that come into force while a simulation runs: those of the configuration at their instants, and those that a
// controller returns when it has seen the traffic.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "control/observation.h"
#include "core/request.h"
#include "sched/deployment.h"
#include "sim/metrics.h"

namespace tangram::sim {

struct PlanChange {
  TimePoint at;
  sched::Deployment deployment;
};

using control::Observation;
using control::ServiceObservation;

// Watches a run and may return a new plan for the same services. It sees the traffic every `interval` of virtual time.
// A plan that it returns while another one is moving waits its turn.
struct Controller {
  Duration interval = std::chrono::minutes(5);
  std::function<std::optional<sched::Deployment>(const Observation&)> decide;  // Unset: no controller.
};

// Numbers the plans, those of the configuration first, and counts for the controller.
class PlanFeed {
 public:
  // Both outlive it.
  PlanFeed(const std::vector<PlanChange>& changes, const Controller& controller, std::size_t services)
      : changes_(changes), controller_(controller) {
    if (watched()) since_.services.resize(services);
  }

  bool watched() const { return static_cast<bool>(controller_.decide); }

  // Count the requests for the controller. Both cost one comparison if there is no controller.
  void arrived(const Request& request) {
    if (!since_.services.empty()) count_arrival(request);
  }
  void resolved(const Request& request, OutcomeKind kind) {
    if (!since_.services.empty()) count_outcome(request, kind);
  }

  // Gives the controller the counts and the present queues of the services, and starts to count again. Returns the
  // number of the plan that the controller wants, if any.
  std::optional<std::uint32_t> control(TimePoint now, bool moving, std::span<const QueueDepth> queues);

  // The plan with this number. The reference is valid until the end of the run.
  const sched::Deployment& plan(std::uint32_t number) const;

 private:
  // Both require a controller.
  void count_arrival(const Request& request);
  void count_outcome(const Request& request, OutcomeKind kind);

  const std::vector<PlanChange>& changes_;
  const Controller& controller_;
  Observation since_;                      // Counts since the last call of the controller; no services without one.
  std::deque<sched::Deployment> decided_;  // By the controller, in order.
};

}  // namespace tangram::sim

// Counts the traffic for a controller, and numbers the plans that come into force.
//
// Plans 0 to n-1 are those of the configuration; each plan that the controller decides gets the next number. An event
// can carry a number but no deployment, and a plan may wait behind another, so plans are stored and referred to by
// number.

#include "sim/plan_feed.h"

#include <utility>

namespace tangram::sim {

void PlanFeed::count_arrival(const Request& request) {
  ServiceObservation& service = since_.services[request.service.index()];
  ++service.arrived;
  // Exact sizes and not buckets, since the controller may choose other buckets.
  ++service.sizes[request.size];
}

void PlanFeed::count_outcome(const Request& request, OutcomeKind kind) {
  control::count_outcome(since_.services[request.service.index()], kind);
}

std::optional<std::uint32_t> PlanFeed::control(TimePoint now, bool moving, std::span<const QueueDepth> queues) {
  since_.at = now;
  since_.moving = moving;
  for (std::size_t s = 0; s < since_.services.size(); ++s) since_.services[s].waiting = queues[s].waiting;
  auto next = controller_.decide(since_);
  // The observation covers one interval, so all counts start again at zero.
  since_.services.assign(since_.services.size(), {});
  if (!next) return std::nullopt;
  // decided_ is a deque: references to earlier plans stay valid when another is added.
  decided_.push_back(std::move(*next));
  return static_cast<std::uint32_t>(changes_.size() + decided_.size() - 1);
}

const sched::Deployment& PlanFeed::plan(std::uint32_t number) const {
  return number < changes_.size() ? changes_[number].deployment : decided_[number - changes_.size()];
}

}  // namespace tangram::sim

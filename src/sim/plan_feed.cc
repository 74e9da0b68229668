#include "sim/plan_feed.h"

#include <utility>

namespace tangram::sim {

void PlanFeed::count_arrival(const Request& request) {
  ServiceObservation& service = since_.services[request.service.index()];
  ++service.arrived;
  ++service.sizes[request.size];
}

void PlanFeed::count_outcome(const Request& request, OutcomeKind kind) {
  ServiceObservation& service = since_.services[request.service.index()];
  switch (kind) {
    case OutcomeKind::served: ++service.served; break;
    case OutcomeKind::late: ++service.late; break;
    case OutcomeKind::rejected:
    case OutcomeKind::failed: ++service.lost; break;
  }
}

std::optional<std::uint32_t> PlanFeed::control(TimePoint now, bool moving, std::span<const QueueDepth> queues) {
  since_.at = now;
  since_.moving = moving;
  for (std::size_t s = 0; s < since_.services.size(); ++s) since_.services[s].waiting = queues[s].waiting;
  auto next = controller_.decide(since_);
  since_.services.assign(since_.services.size(), {});
  if (!next) return std::nullopt;
  decided_.push_back(std::move(*next));
  return static_cast<std::uint32_t>(changes_.size() + decided_.size() - 1);
}

const sched::Deployment& PlanFeed::plan(std::uint32_t number) const {
  return number < changes_.size() ? changes_[number].deployment : decided_[number - changes_.size()];
}

}  // namespace tangram::sim

#include "control/observation.h"

#include <cstddef>

namespace tangram::control {

void count_outcome(ServiceObservation& service, OutcomeKind kind) {
  switch (kind) {
    case OutcomeKind::served: ++service.served; break;
    case OutcomeKind::late: ++service.late; break;
    case OutcomeKind::rejected:
    case OutcomeKind::failed: ++service.lost; break;
    // It says nothing about the slices: its caller did not wait.
    case OutcomeKind::abandoned: break;
  }
}

void add_to(Observation& window, const Observation& seen) {
  window.at = seen.at;
  window.moving = seen.moving;
  window.services.resize(seen.services.size());
  for (std::size_t s = 0; s < seen.services.size(); ++s) {
    ServiceObservation& sum = window.services[s];
    const ServiceObservation& part = seen.services[s];
    sum.arrived += part.arrived;
    sum.served += part.served;
    sum.late += part.late;
    sum.lost += part.lost;
    // A level and not a flow: the newest value is that of the window.
    sum.waiting = part.waiting;
    for (const auto& [size, count] : part.sizes) sum.sizes[size] += count;
  }
}

}  // namespace tangram::control

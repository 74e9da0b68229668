// What a controller is told about the traffic. The simulator and a live gateway fill in the same values.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/time.h"
#include "core/request.h"

namespace tangram::control {

// One service: what happened since the last observation.
struct ServiceObservation {
  std::uint64_t arrived = 0;
  std::uint64_t served = 0;  // In time.
  std::uint64_t late = 0;
  std::uint64_t lost = 0;                       // Rejected and failed.
  std::uint64_t waiting = 0;                    // Now.
  std::map<std::int64_t, std::uint64_t> sizes;  // How many requests of each input size arrived.
};

struct Observation {
  TimePoint at;
  bool moving = false;  // The last plan is still being put in place.
  std::vector<ServiceObservation> services;
};

// A request of the service has ended.
void count_outcome(ServiceObservation& service, OutcomeKind kind);

// Adds `seen` to `window`: counts add up, while time, moving and waiting are those of `seen`.
void add_to(Observation& window, const Observation& seen);

}  // namespace tangram::control

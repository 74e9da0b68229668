// The names of slices, and how much of the fleet is in use.
#pragma once

#include <cstddef>
#include <vector>

#include "base/time.h"
#include "sched/state.h"
#include "sim/metrics.h"

namespace tangram::sim {

// What services use from an instant on. A slice counts from when a plan asks for it until it is drained, its device
// until it is re-cut.
struct FleetUse {
  TimePoint at;
  std::size_t devices = 0;  // With at least one replica.
  std::size_t slices = 0;
  int compute_slices = 0;
};

FleetUse fleet_use_of(const sched::State& state, TimePoint now);

// Appends the places of those slices that have none yet; to be called while their plan is in force. Processes that
// share a slice share its compute slices.
void append_places(const sched::State& state, std::vector<SlicePlace>& places);

}  // namespace tangram::sim

// The names of slices.
#pragma once

#include <cstddef>
#include <vector>

#include "base/time.h"
#include "control/fleet_use.h"
#include "sched/state.h"
#include "sim/metrics.h"

namespace tangram::sim {

using control::FleetUse;
using control::fleet_use_of;

// Appends the places of those slices that have none yet; to be called while their plan is in force. Processes that
// share a slice share its compute slices.
void append_places(const sched::State& state, std::vector<SlicePlace>& places);

}  // namespace tangram::sim

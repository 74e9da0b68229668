// The kinds of events of a simulation, and the meaning of their index and tag.
#pragma once

#include <cstdint>

namespace tangram::sim {

enum EventKind : std::uint32_t {
  kArrival,    // index: service, tag: what the request of a closed loop's client holds, 0 for others
  kBatchDone,  // index: slice, tag: batch
  kBatchFailed,
  kBatchStopped,
  kWake,  // tag: serial of the call to wake_at
  kSliceLost,
  kRestarted,   // index: slice
  kReshaped,    // index: device
  kReturned,    // index: slice
  kPlanChange,  // index: of the plan, as PlanFeed numbers them
  kControl,
  kLessee,
  kRow,  // index: offline job
};

}  // namespace tangram::sim

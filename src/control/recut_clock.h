// How long the devices of an emulated fleet take to be cut and loaded. The simulator and the live gateway use the same
// one, so that a rehearsal in real time and a simulated day are about the same machine.
#pragma once

#include "base/time.h"
#include "core/layout.h"
#include "plan/transition.h"

namespace tangram::control {

class RecutClock {
 public:
  RecutClock(plan::RecutTimes recut, Duration load) : recut_(std::move(recut)), load_(load) {}

  // A plan comes into force. From `now` on its empty devices are prepared, all at once.
  void begin_move(TimePoint now) { begun_ = now; }
  // How long the change of a device from `before` to `target` takes from `now` on: destroying and creating the slices
  // that differ, then loading models. An empty device has been in preparation since the move began, even if it is asked
  // for after others.
  Duration time_of(const Layout& before, const Layout& target, TimePoint now) const;

 private:
  plan::RecutTimes recut_;
  Duration load_;
  TimePoint begun_;
};

}  // namespace tangram::control

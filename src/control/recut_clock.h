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

  // A plan comes into force. From now on its empty devices are prepared, all at once.
  void begin_move() { since_decision_ = Duration::zero(); }
  // How long the change of a device from `before` to `target` takes: destroying and creating the slices that differ,
  // then loading models. Devices are asked for one after the other, the empty ones first: as these are prepared in
  // parallel, the time that earlier ones took is subtracted from the later ones.
  Duration time_of(const Layout& before, const Layout& target);

 private:
  plan::RecutTimes recut_;
  Duration load_;
  Duration since_decision_{};
};

}  // namespace tangram::control

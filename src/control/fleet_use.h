// How much of the fleet services use, and for how long.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/time.h"
#include "sched/state.h"

namespace tangram::control {

// What services use from an instant on. A slice counts from when a plan asks for it until it is drained, its device
// until it is re-cut.
struct FleetUse {
  TimePoint at;
  std::size_t devices = 0;  // With at least one replica.
  std::size_t slices = 0;
  int compute_slices = 0;
  std::vector<std::string> device_names = {};  // Of the devices, in the order of the deployment.
};

FleetUse fleet_use_of(const sched::State& state, TimePoint now);

// Hours of devices and of compute slices, added up from one change of use to the next.
class FleetHours {
 public:
  // Hours of an earlier run.
  void add(double device_hours, double slice_hours) {
    devices_ += device_hours;
    slices_ += slice_hours;
  }
  // From `use.at` on this is used. Times do not go back.
  void note(const FleetUse& use);
  double device_hours(TimePoint now) const { return devices_ + since(now) * static_cast<double>(last_.devices); }
  double slice_hours(TimePoint now) const { return slices_ + since(now) * last_.compute_slices; }

 private:
  double since(TimePoint now) const { return to_seconds(now - last_.at) / 3600; }

  FleetUse last_;
  double devices_ = 0;  // Up to last_.at, as is slices_.
  double slices_ = 0;
};

}  // namespace tangram::control

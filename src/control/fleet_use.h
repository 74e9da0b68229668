// How much of the fleet services use, and for how long.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "base/time.h"
#include "core/fleet.h"
#include "sched/state.h"

namespace tangram::control {

// What services use from an instant on. A slice counts from when a plan asks for it until it is drained, its device
// until it is re-cut.
struct FleetUse {
  TimePoint at;
  std::size_t devices = 0;  // With at least one replica.
  std::size_t slices = 0;
  int compute_slices = 0;
  // Devices by the name of their group: what stands before the number in their names.
  std::map<std::string, std::size_t, std::less<>> of_group = {};
};

FleetUse fleet_use_of(const sched::State& state, TimePoint now);

// Hours of devices and of compute slices, added up from one change of use to the next.
class FleetHours {
 public:
  using ByGroup = std::map<std::string, double, std::less<>>;

  // Hours of an earlier run.
  void add(double device_hours, double slice_hours, const ByGroup& group_hours = {}) {
    devices_ += device_hours;
    slices_ += slice_hours;
    for (const auto& [group, hours] : group_hours) groups_[group] += hours;
  }
  // From `use.at` on this is used. Times do not go back.
  void note(const FleetUse& use);
  double device_hours(TimePoint now) const { return devices_ + since(now) * static_cast<double>(last_.devices); }
  double slice_hours(TimePoint now) const { return slices_ + since(now) * last_.compute_slices; }
  // Device-hours by the name of the group.
  ByGroup group_hours(TimePoint now) const;
  const FleetUse& last() const { return last_; }

 private:
  double since(TimePoint now) const { return to_seconds(now - last_.at) / 3600; }

  FleetUse last_;
  double devices_ = 0;  // Up to last_.at, as is slices_.
  double slices_ = 0;
  ByGroup groups_;
};

// What a use of the fleet costs. Hours of different types of devices are never added up: an A100 is no H100.
struct FleetCost {
  bool priced = false;                                      // Some group of the fleet has a price.
  double cost = 0;                                          // In the unit of `price_per_hour`.
  double cost_per_hour = 0;                                 // Now.
  std::map<std::string, double, std::less<>> device_hours;  // By device type.
};
FleetCost cost_of(const Fleet& fleet, const FleetHours& hours, TimePoint now);

}  // namespace tangram::control

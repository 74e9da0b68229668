// Several processes can share one slice. Each is a place of its own for the scheduler, so places with the same device,
// profile and start are recognised as one slice.

#include "control/fleet_use.h"

#include <set>
#include <tuple>

namespace tangram::control {

FleetUse fleet_use_of(const sched::State& state, TimePoint now) {
  FleetUse use{now, 0, 0, 0, {}};
  std::set<DeviceId> devices;
  std::set<std::tuple<DeviceId, std::size_t, int>> places;
  for (const auto& slice : state.slices) {
    // Slices of earlier plans stay in the state as `gone`, so that the numbers of slices stay valid.
    if (slice.status == sched::SliceStatus::gone) continue;
    const sched::Place& at = slice.place;
    devices.insert(at.device);
    if (!places.emplace(at.device, at.slice.profile, at.slice.start).second) continue;
    use.compute_slices += state.deployment.pools[at.pool.index()].compute_slices;
  }
  for (const DeviceId device : devices) {
    // A deployment of an experiment may have places without devices.
    if (device.index() >= state.deployment.devices.size()) continue;
    const std::string& name = state.deployment.devices[device.index()].name;
    ++use.of_group[name.substr(0, name.rfind('-'))];
  }
  use.devices = devices.size();
  use.slices = places.size();
  return use;
}

FleetHours::ByGroup FleetHours::group_hours(TimePoint now) const {
  ByGroup hours = groups_;
  for (const auto& [group, devices] : last_.of_group) hours[group] += since(now) * static_cast<double>(devices);
  return hours;
}

FleetCost cost_of(const Fleet& fleet, const FleetHours& hours, TimePoint now) {
  FleetCost cost;
  const auto group_hours = hours.group_hours(now);
  for (const auto& group : fleet.groups) {
    const std::string& name = group_name(group);
    cost.priced |= group.price_per_hour > 0;
    if (const auto used = group_hours.find(name); used != group_hours.end()) {
      cost.device_hours[group.type] += used->second;
      cost.cost += used->second * group.price_per_hour;
    }
    if (const auto now_used = hours.last().of_group.find(name); now_used != hours.last().of_group.end()) {
      cost.cost_per_hour += static_cast<double>(now_used->second) * group.price_per_hour;
    }
  }
  return cost;
}

void FleetHours::note(const FleetUse& use) {
  groups_ = group_hours(use.at);
  devices_ = device_hours(use.at);
  slices_ = slice_hours(use.at);
  last_ = use;
}

}  // namespace tangram::control

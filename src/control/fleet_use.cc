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
  use.devices = devices.size();
  for (const DeviceId device : devices) use.device_names.push_back(state.deployment.devices[device.index()].name);
  use.slices = places.size();
  return use;
}

void FleetHours::note(const FleetUse& use) {
  devices_ = device_hours(use.at);
  slices_ = slice_hours(use.at);
  last_ = use;
}

}  // namespace tangram::control

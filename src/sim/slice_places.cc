#include "sim/slice_places.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <tuple>

namespace tangram::sim {
namespace {

// The same for all processes on one slice.
auto key_of(const sched::Place& at) { return std::tuple(at.device, at.slice.profile, at.slice.start); }

SlicePlace named(const sched::Deployment& deployment, const sched::Place& at) {
  const sched::Pool& pool = deployment.pools[at.pool.index()];
  SlicePlace place;
  place.device_id = at.device;
  place.slice = at.slice;
  place.process = at.process;
  place.compute_slices = pool.compute_slices;
  for (const auto& entry : pool.services) place.services.push_back(entry.service);
  if (at.device.index() >= deployment.devices.size()) return place;  // An experiment that stands on no device.
  const auto& device = deployment.devices[at.device.index()];
  if (at.slice.profile >= device.geometry.profiles.size()) return place;
  place.device = device.name;
  place.name = fmt::format("{}@{}", device.geometry.profiles[at.slice.profile].name, at.slice.start);
  if (at.process > 0) place.name += fmt::format("#{}", at.process);
  return place;
}

}  // namespace

FleetUse fleet_use_of(const sched::State& state, TimePoint now) {
  FleetUse use{now, 0, 0, 0};
  std::set<DeviceId> devices;
  std::set<decltype(key_of(state.slices[0].place))> places;
  for (const auto& slice : state.slices) {
    if (slice.status == sched::SliceStatus::gone) continue;
    devices.insert(slice.place.device);
    if (!places.insert(key_of(slice.place)).second) continue;
    use.compute_slices += state.deployment.pools[slice.place.pool.index()].compute_slices;
  }
  use.devices = devices.size();
  use.slices = places.size();
  return use;
}

void append_places(const sched::State& state, std::vector<SlicePlace>& places) {
  const auto& slices = state.slices;
  std::map<decltype(key_of(slices[0].place)), int> processes;
  for (std::size_t i = places.size(); i < slices.size(); ++i) ++processes[key_of(slices[i].place)];
  while (places.size() < slices.size()) {
    const sched::Place& at = slices[places.size()].place;
    places.push_back(named(state.deployment, at));
    places.back().compute_slices /= processes[key_of(at)];
  }
}

}  // namespace tangram::sim

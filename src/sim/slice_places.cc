// Names the slices of a run.
//
// Several processes can share one slice. Each is a place of its own for the scheduler, so here places with the same
// device, profile and start are recognised as one slice and its compute is divided among them.

#include "sim/slice_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace tangram::sim {
namespace {

// Identifies a slice; equal for all processes on it.
auto key_of(const sched::Place& at) { return std::tuple(at.device, at.slice.profile, at.slice.start); }

SlicePlace named(const sched::Deployment& deployment, const sched::Place& at) {
  const sched::Pool& pool = deployment.pools[at.pool.index()];
  SlicePlace place;
  place.device_id = at.device;
  place.slice = at.slice;
  place.process = at.process;
  place.compute_slices = pool.compute_slices;
  // With the services whose requests run in the batches of another.
  for (std::uint32_t s = 0; s < deployment.services.size(); ++s) {
    const ServiceId queue = sched::queue_of(deployment, ServiceId(s));
    if (std::ranges::find(pool.services, queue, &sched::PoolService::service) == pool.services.end()) continue;
    place.services.push_back(ServiceId(s));
  }
  // Places without a device come from experiments that simulate slices alone; they have no name.
  if (at.device.index() >= deployment.devices.size()) return place;
  const auto& device = deployment.devices[at.device.index()];
  if (at.slice.profile >= device.geometry.profiles.size()) return place;
  place.device = device.name;
  place.name = fmt::format("{}@{}", device.geometry.profiles[at.slice.profile].name, at.slice.start);
  if (at.process > 0) place.name += fmt::format("#{}", at.process);
  return place;
}

}  // namespace

void append_places(const sched::State& state, std::vector<SlicePlace>& places) {
  const auto& slices = state.slices;
  std::map<decltype(key_of(slices[0].place)), int> processes;
  // Counts only the new places: an earlier plan may have had the same slice with another number of processes.
  for (std::size_t i = places.size(); i < slices.size(); ++i) ++processes[key_of(slices[i].place)];
  while (places.size() < slices.size()) {
    const sched::Place& at = slices[places.size()].place;
    places.push_back(named(state.deployment, at));
    places.back().compute_slices /= processes[key_of(at)];
  }
}

}  // namespace tangram::sim

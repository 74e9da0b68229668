#include "control/fleet_faces.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"

namespace tangram::control {
namespace {

// The group of a device: what stands before the number in its name, "rack1" of "rack1-3".
std::string_view group_of(std::string_view device) {
  const auto dash = device.rfind('-');
  return dash == std::string_view::npos ? device : device.substr(0, dash);
}

// The type of the catalogue that a geometry is of. A recording has neither type nor units, only the names of profiles:
// then it is the first type that offers all of them. Null: none does.
const Geometry* known_geometry(const Geometry& geometry) {
  if (!geometry.type.empty() || geometry.profiles.empty()) return find_geometry(geometry.type);
  for (const Geometry& known : known_geometries()) {
    const bool offers_all = std::ranges::all_of(geometry.profiles, [&](const MigProfile& profile) {
      return std::ranges::find(known.profiles, profile.name, &MigProfile::name) != known.profiles.end();
    });
    if (offers_all) return &known;
  }
  return nullptr;
}

// The profile with its units. Null: nobody knows them.
const MigProfile* known_profile(const Geometry& geometry, std::size_t index) {
  if (index >= geometry.profiles.size()) return nullptr;
  const MigProfile& profile = geometry.profiles[index];
  if (profile.units > 0) return &profile;
  const Geometry* known = known_geometry(geometry);
  if (known == nullptr) return nullptr;
  const auto found = std::ranges::find(known->profiles, profile.name, &MigProfile::name);
  return found == known->profiles.end() ? nullptr : &*found;
}

int device_units(const sched::DeployedDevice& device) {
  if (device.geometry.units > 0) return device.geometry.units;
  if (const Geometry* known = known_geometry(device.geometry)) return known->units;
  int units = 1;
  for (const auto& slice : device.layout.slices) {
    units = std::max(units, slice.start + units_of(device.geometry, slice));
  }
  return units;
}

std::vector<ServiceId> services_on(const sched::Deployment& deployment, const sched::Pool& pool) {
  std::vector<ServiceId> list;
  for (std::uint32_t s = 0; s < deployment.services.size(); ++s) {
    const ServiceId queue = sched::queue_of(deployment, ServiceId(s));
    if (std::ranges::find(pool.services, queue, &sched::PoolService::service) != pool.services.end()) {
      list.emplace_back(s);
    }
  }
  return list;
}

}  // namespace

int units_of(const Geometry& geometry, const Slice& slice) {
  if (const MigProfile* profile = known_profile(geometry, slice.profile)) return profile->units;
  if (slice.profile >= geometry.profiles.size()) return 1;
  const std::string& name = geometry.profiles[slice.profile].name;
  const auto digits = name.find_first_not_of("0123456789.");
  const double number = text::parse_number(name.substr(0, digits)).value_or(1);
  const bool cores = digits != std::string::npos && name[digits] == 'c';
  return std::clamp(static_cast<int>(cores ? number * 4 : number), 1, 4096);
}

const SliceFace* FleetFaces::find(SliceId id) const {
  const auto found = std::ranges::lower_bound(slices, id, {}, &SliceFace::id);
  return found != slices.end() && found->id == id ? &*found : nullptr;
}

std::string FleetFaces::name_of(SliceId id) const {
  const SliceFace* face = find(id);
  return face == nullptr ? fmt::format("slice {}", id.value()) : face->name;
}

FleetFaces faces_of(const sched::State& state, const PricesPerHour& prices) {
  FleetFaces faces;
  faces.at = state.now;
  const sched::Deployment& deployment = state.deployment;
  for (const auto& device : deployment.devices) {
    const auto price = prices.find(group_of(device.name));
    const Geometry* known = device.geometry.type.empty() ? known_geometry(device.geometry) : nullptr;
    faces.devices.push_back({device.name, known == nullptr ? device.geometry.type : known->type, device_units(device),
                             price == prices.end() ? 0 : price->second});
  }
  std::vector<std::set<std::uint32_t>> beside(deployment.services.size());
  for (std::uint32_t i = 0; i < state.slices.size(); ++i) {
    const sched::SliceState& slice = state.slices[i];
    if (slice.status == sched::SliceStatus::gone) continue;
    const sched::Place& place = slice.place;
    const Geometry& geometry = deployment.devices[place.device.index()].geometry;
    SliceFace face;
    face.id = SliceId(i);
    face.device = place.device.value();
    face.start = place.slice.start;
    face.profile = place.slice.profile < geometry.profiles.size() ? geometry.profiles[place.slice.profile].name : "?";
    face.units = units_of(geometry, place.slice);
    face.process = place.process;
    face.name = fmt::format("{}/{}@{}", deployment.devices[place.device.index()].name, face.profile, place.slice.start);
    if (face.process > 0) face.name += fmt::format("#{}", face.process);
    // A slice of the plan before has a pool of that plan.
    if (place.pool.index() < deployment.pools.size()) {
      face.services = services_on(deployment, deployment.pools[place.pool.index()]);
    }
    for (const ServiceId a : face.services) {
      for (const ServiceId b : face.services) {
        if (a != b) beside[a.index()].insert(b.value());
      }
    }
    auto& device = faces.devices[face.device];
    device.units = std::max(device.units, face.start + face.units);
    faces.slices.push_back(std::move(face));
  }
  for (std::size_t s = 0; s < deployment.services.size(); ++s) {
    const auto& service = deployment.services[s];
    faces.services.push_back({service.name, to_milliseconds(service.slo.latency), service.slo.percentile,
                              static_cast<int>(beside[s].size())});
  }
  return faces;
}

// The time of one sample on a slice is that of a full batch over its size, averaged over the buckets as the requests
// fall into them.
double capacity_per_s(const sched::State& state, ServiceId service,
                      const std::vector<std::uint64_t>& requests_by_bucket) {
  const ServiceId queue = sched::queue_of(state.deployment, service);
  double total = 0;
  for (const auto& slice : state.slices) {
    if (!sched::serves(slice) || slice.place.pool.index() >= state.deployment.pools.size()) continue;
    const auto& pool = state.deployment.pools[slice.place.pool.index()];
    const auto entry = std::ranges::find(pool.services, queue, &sched::PoolService::service);
    if (entry == pool.services.end()) continue;
    double time_ns = 0;
    double weight = 0;
    for (std::size_t b = 0; b < entry->batch_max.size(); ++b) {
      if (entry->batch_max[b] < 1) continue;
      const bool counted = b < requests_by_bucket.size() && requests_by_bucket[b] > 0;
      // A bucket without requests counts a little, so that there is an answer before the first one.
      const double share = counted ? static_cast<double>(requests_by_bucket[b]) : 1e-9;
      const std::int32_t batch = std::min(entry->batch_max[b], entry->latency.samples_max());
      time_ns += share * static_cast<double>(entry->latency.mean_ns(b, batch)) / batch;
      weight += share;
    }
    if (time_ns > 0) total += 1e9 * weight / time_ns;
  }
  return total;
}

}  // namespace tangram::control

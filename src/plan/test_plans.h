// Plans in a few letters, and random ones, for the tests of this room.
#pragma once

#include <charconv>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/text.h"
#include "core/plan.h"

namespace tangram::plan {

// "2g@0 a:64:8 b:1:1x2, 2g@2": slices with their replicas as service:size_max:batch_size, and x with the processes.
struct DeviceText {
  std::string name;
  std::string type;
  std::string slices;
};

inline Replica replica_of(std::string_view text) {
  const auto parts = text::split(text, ':');
  const auto batch = text::split(parts.at(2), 'x');
  Replica replica;
  replica.service = std::string(parts.at(0));
  replica.buckets.push_back({*text::parse_integer(parts.at(1)), *text::parse_integer(batch.at(0))});
  if (batch.size() > 1) replica.processes = static_cast<int>(*text::parse_integer(batch[1]));
  return replica;
}

inline PlannedDevice device_of(const DeviceText& text) {
  PlannedDevice device{text.name, text.type, *find_geometry(text.type), {}};
  for (const auto part : text::split(text.slices, ',')) {
    PlannedSlice planned;
    for (const auto word : text::split(text::trim(part), ' ')) {
      const auto at = word.find('@');
      if (at == std::string_view::npos) {
        planned.replicas.push_back(replica_of(word));
        continue;
      }
      planned.slice.profile = static_cast<std::uint16_t>(*find_profile(device.geometry, word.substr(0, at)));
      planned.slice.start = static_cast<std::uint16_t>(*text::parse_integer(word.substr(at + 1)));
    }
    device.slices.push_back(std::move(planned));
  }
  return device;
}

inline Plan plan_of(const std::vector<DeviceText>& devices) {
  Plan plan;
  for (const auto& text : devices) plan.devices.push_back(device_of(text));
  return plan;
}

inline Replica random_replica(Rng& rng, int services) {
  Replica replica;
  replica.service = std::string(1, static_cast<char>('a' + rng.integer(0, services - 1)));
  replica.processes = static_cast<int>(rng.integer(1, 2));
  replica.buckets.push_back({64, rng.integer(1, 2) * 4});
  if (rng.chance(0.2)) replica.buckets.push_back({512, 1});
  return replica;
}

// Slices are put where they fit, in random order, until chance says stop; a fifth of them stay free.
inline PlannedDevice random_device(Rng& rng, std::string name, const std::string& type, int services) {
  PlannedDevice device{std::move(name), type, *find_geometry(type), {}};
  Layout layout;
  while (!rng.chance(0.15)) {
    const auto profile = static_cast<std::uint16_t>(rng.below(device.geometry.profiles.size()));
    const auto& starts = device.geometry.profiles[profile].starts;
    const Slice slice{profile, static_cast<std::uint16_t>(starts[rng.below(starts.size())])};
    if (fits(device.geometry, layout, slice)) layout = with_slice(device.geometry, layout, slice);
  }
  for (const auto& slice : layout.slices) {
    PlannedSlice planned{slice, {}};
    if (!rng.chance(0.2)) planned.replicas.push_back(random_replica(rng, services));
    if (!planned.replicas.empty() && rng.chance(0.2)) planned.replicas.push_back(random_replica(rng, services));
    device.slices.push_back(std::move(planned));
  }
  return device;
}

}  // namespace tangram::plan

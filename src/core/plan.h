// A layout for each device and the replicas on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/layout.h"

namespace tangram {

// A range of input sizes that one replica serves with one padded size: everything up to `size_max` that no smaller
// bucket of the service takes, in batches of at most `batch_size`.
struct PlannedBucket {
  std::int64_t size_max = 1;
  std::int64_t batch_size = 1;

  bool operator==(const PlannedBucket&) const = default;
};

// When the model of a replica is loaded.
enum class ReplicaLoad {
  start,      // With its slice; it stays loaded.
  on_demand,  // By its first request, in the place of the model that was used least recently.
};

// One model loaded on one slice.
struct Replica {
  std::string service;
  std::vector<PlannedBucket> buckets;  // Ascending sizes, at least one.
  int processes = 1;                   // How many processes share the slice for it.
  ReplicaLoad load = ReplicaLoad::start;
  // On a slice that services share: the requests a second of the service, on all its slices together, that the plan has
  // room for at its busiest. The scheduler rejects what exceeds them, so that no service takes its neighbours' time.
  std::optional<double> rate_max_per_s = std::nullopt;

  bool operator==(const Replica&) const = default;
};

struct PlannedSlice {
  Slice slice;
  std::vector<Replica> replicas;  // Several share the slice in time; none: it is free to lend, unless reserved.
  // Others use it: it is never cut, lent or given a replica. See DeviceGroup::reserved.
  bool reserved = false;

  bool operator==(const PlannedSlice&) const = default;
};

struct PlannedDevice {
  std::string name;  // Unique in the plan: "a100-80gb-0".
  std::string type;  // An id of the catalogue, or "cpu".
  Geometry geometry;
  std::vector<PlannedSlice> slices;  // Ascending starts.

  bool operator==(const PlannedDevice&) const = default;
};

struct Plan {
  std::vector<PlannedDevice> devices;

  bool operator==(const Plan&) const = default;
};

Layout layout_of(const PlannedDevice& device);
// The slices of the device that others use.
Layout reserved_of(const PlannedDevice& device);

}  // namespace tangram

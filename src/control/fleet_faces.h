// What of a fleet keeps its name and place while time passes: devices, their slices, and services.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/ids.h"
#include "sched/state.h"

namespace tangram::control {

struct DeviceFace {
  std::string name;
  std::string type;
  int units = 0;              // The width of its picture.
  double price_per_hour = 0;  // Zero: not known.
};

// One place where batches run. A slice that several processes share has several faces with one name.
struct SliceFace {
  SliceId id;
  std::uint32_t device = 0;  // Index into FleetFaces::devices.
  std::string name;          // "rack1-0/3g.20gb@4", as in /status.
  std::string profile;
  int start = 0;
  int units = 0;
  int process = 0;
  std::vector<ServiceId> services;  // That it runs batches for.
};

struct ServiceFace {
  std::string name;
  double promise_ms = 0;
  double percentile = 99;
  int shares_with = 0;  // How many other services run on its slices.
};

// From `at` on, until the next ones. A move that begins or ends makes new ones.
struct FleetFaces {
  std::uint32_t number = 0;
  TimePoint at;
  std::vector<DeviceFace> devices;
  std::vector<SliceFace> slices;  // Those that are not gone.
  std::vector<ServiceFace> services;

  // Null: there is none.
  const SliceFace* find(SliceId id) const;
  std::string name_of(SliceId id) const;
};

// Prices of devices by the names of their groups, as in a fleet file; empty: unknown.
using PricesPerHour = std::map<std::string, double, std::less<>>;

FleetFaces faces_of(const sched::State& state, const PricesPerHour& prices);

// How many units of its device a slice covers. A recording has the names of profiles only: then the catalogue is asked,
// and for a host the name itself ("1.5c" is six quarter cores).
int units_of(const Geometry& geometry, const Slice& slice);

// Requests a second of the service that its slices can run now, if they run nothing else, in full batches of the sizes
// that `requests_by_bucket` counts. Zero: no slice serves it.
double capacity_per_s(const sched::State& state, ServiceId service,
                      const std::vector<std::uint64_t>& requests_by_bucket);

}  // namespace tangram::control

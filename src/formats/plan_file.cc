// The plan file: JSON that programs read and people may edit.
//
// A device has its layout twice, as one line for people and as the list of slices with their replicas. The reader
// compares the two, so an edit that changes only one of them is reported instead of cutting a device in an unexpected
// way.

#include "formats/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "formats/describe.h"
#include "formats/detail/limits.h"
#include "formats/detail/shapes.h"

namespace tangram::formats {
namespace {

// The plan as the file has it. Located fields are those whose place a check reports.
struct BucketRecord {
  Located<std::int64_t> size_max;
  std::int64_t batch_size = 1;
};

struct ReplicaRecord {
  std::string service;
  int processes = 1;
  ReplicaLoad load = ReplicaLoad::start;
  std::optional<double> rate_max_per_s;
  Located<std::vector<BucketRecord>> buckets;
};

struct SliceRecord {
  Located<std::string> profile;
  Located<int> start;
  Located<std::optional<bool>> reserved;  // Left out where it is not.
  std::vector<ReplicaRecord> replicas;
};

struct DeviceRecord {
  Located<std::string> name;
  Located<std::string> type;
  Located<std::optional<int>> cores;
  Located<std::optional<double>> memory_gib;
  Located<std::optional<bool>> quota;
  Located<std::string> layout;
  Located<std::vector<SliceRecord>> slices;
};

struct PlanRecord {
  int version = kPlanVersion;
  std::vector<Located<DeviceRecord>> devices;
};

template <typename Visitor>
void describe(Visitor& v, BucketRecord& c) {
  v.about("Bucket", "Input sizes that are padded to one size and batched together.");
  v.field("size_max", c.size_max, {.min = 1, .max = kSizeMax, .required = true},
          "The largest size of the bucket; it takes all sizes above the next smaller bucket of the service.");
  v.field("batch_size", c.batch_size, {.min = 1, .max = kBatchMax, .required = true}, "The largest batch.");
}

}  // namespace

// In the namespace of the visitor, where the compiler looks for the descriptions of core's types.
template <typename Visitor>
void describe(Visitor& v, ReplicaLoad& load) {
  v.name("start", load, ReplicaLoad::start, "With its slice; it stays loaded.");
  v.name("on_demand", load, ReplicaLoad::on_demand,
         "By its first request, in the place of the model that was used least recently.");
}

namespace {

template <typename Visitor>
void describe(Visitor& v, ReplicaRecord& c) {
  v.about("Replica", "One model loaded on one slice.");
  v.field("service", c.service, {.required = true, .text = TextRule::name}, "The service that the replica serves.");
  v.field("processes", c.processes, {.min = 1, .max = kProcessesMax},
          "The number of processes of this replica that share the slice.");
  v.field("load", c.load, "When the model is loaded.");
  v.field("rate_max_per_s", c.rate_max_per_s, {.max = kRateMax, .above = 0},
          "On a slice that services share: the requests a second of the service, on all its slices together, that the "
          "plan has room for at its busiest. What exceeds them is rejected.");
  v.field("buckets", c.buckets, {.required = true, .items_min = 1},
          "The buckets that it serves, in ascending order of sizes.");
}

template <typename Visitor>
void describe(Visitor& v, SliceRecord& c) {
  v.about("Slice", "One cut of the device.");
  v.field("profile", c.profile, {.required = true}, "The MigProfile of the slice.");
  v.field("start", c.start, {.min = 0, .max = UINT16_MAX, .required = true}, "The unit at which it starts.");
  v.field("reserved", c.reserved, "Others use the slice: it is never cut, lent or given a replica.");
  v.field("replicas", c.replicas, {.required = true},
          "The replicas on the slice. Several take turns; a slice without any can be lent, unless it is reserved.");
}

template <typename Visitor>
void describe(Visitor& v, DeviceRecord& c) {
  v.about("Planned device", "One device, its layout and the replicas on it.");
  v.field("name", c.name, {.required = true, .text = TextRule::name}, "The name of the device, unique in the plan.");
  v.field("type", c.type, {.required = true, .names = &device_type_names}, "The device type.");
  v.field("cores", c.cores, {.min = 1, .max = kCpuCoresMax}, "Only for cpu, and required there: the number of cores.");
  v.field("memory_gib", c.memory_gib, {.min = 0, .max = 1e6}, "Only for cpu, and required there: the memory.");
  v.field("quota", c.quota, "Only for cpu, and required there: whether it is cut by quarters of a core.");
  v.field("layout", c.layout, {.required = true},
          "The slices in one line, `4g.40gb@0 + 3g.40gb@4` or `empty`; must agree with `slices`.");
  v.field("slices", c.slices, {.required = true}, "The same slices, in order of their starts, with their replicas.");
}

// The version is exact: a reader must not guess the meaning of fields that a later format may change.
template <typename Visitor>
void describe(Visitor& v, PlanRecord& c) {
  v.about("Plan", "A layout for each device and the replicas on it.");
  v.field("version", c.version, {.min = kPlanVersion, .max = kPlanVersion, .required = true},
          "The version of the file format.");
  v.field("devices", c.devices, {.required = true}, "The devices.");
}

// Builds a plan from its record and reports where the parts disagree. Values that the description has already reported
// are skipped, so that one mistake gives one message.
class PlanAssembler {
 public:
  explicit PlanAssembler(Problems& problems) : problems_(problems) {}

  // A device without a geometry is left out; the problem that caused this discards the plan anyway.
  Plan assemble(const PlanRecord& record) {
    Plan plan;
    for (const auto& device : record.devices) {
      check_name(device.value);
      if (auto geometry = geometry_of(device)) plan.devices.push_back(device_of(device.value, std::move(*geometry)));
    }
    return plan;
  }

 private:
  // Device names identify devices for all later commands, so each may occur once.
  void check_name(const DeviceRecord& device) {
    if (device.name.value.empty()) return;
    const auto [first, fresh] = lines_.emplace(device.name.value, device.name.at.line);
    if (fresh) return;
    problems_.add(device.name.at, fmt::format("the name {} is already used by the device in line {}", device.name.value,
                                              first->second));
  }

  // The device's profiles and places, or nullopt if the file does not determine them, which has then been reported.
  std::optional<Geometry> geometry_of(const Located<DeviceRecord>& device) {
    const auto& record = device.value;
    if (record.type.value.empty()) return std::nullopt;
    // GPU types have a fixed geometry in the catalogue; a host's depends on the three fields below.
    if (record.type.value == "cpu") return host_geometry(device);
    for (const Position at : {record.cores.at, record.memory_gib.at, record.quota.at}) {
      if (at.line != 0) problems_.add(at, "cores, memory_gib and quota apply only to type cpu");
    }
    return *find_geometry(record.type.value);
  }

  // Unlike in the fleet file, nothing is taken from this machine: a plan must mean the same wherever it is read.
  std::optional<Geometry> host_geometry(const Located<DeviceRecord>& device) {
    const auto& record = device.value;
    if (record.cores.wrong || record.memory_gib.wrong || record.quota.wrong) return std::nullopt;
    if (!record.cores.value || !record.memory_gib.value || !record.quota.value) {
      problems_.add(device.at, "a device of type cpu needs cores, memory_gib and quota");
      return std::nullopt;
    }
    const CpuHost host{
        .cores = *record.cores.value, .memory_gib = *record.memory_gib.value, .quota = *record.quota.value};
    // A host of n units has a profile of each size at each start: n (n + 1) / 2 places. The sum over all hosts is
    // limited, because a small file could otherwise ask for geometries that fill the memory.
    const std::int64_t units = std::int64_t{host.cores} * (host.quota ? 4 : 1);
    host_starts_ += units * (units + 1) / 2;
    if (host_starts_ <= kPlanHostStartsMax) return cpu_geometry(host);
    problems_.add(device.at,
                  fmt::format("the hosts up to here have more than {} positions for slices", kPlanHostStartsMax));
    return std::nullopt;
  }

  // The device with its slices. Problems of the layout, of slices and of their agreement are added.
  PlannedDevice device_of(const DeviceRecord& record, Geometry geometry) {
    PlannedDevice device;
    device.name = record.name.value;
    device.type = record.type.value;
    const auto parsed = layout_in(record, geometry);
    // Layout and slices are compared only if each was understood in full; otherwise the difference follows from a
    // problem that has been reported.
    bool comparable = parsed && record.slices.at.line != 0;
    for (const auto& slice : record.slices.value) comparable = add_slice(slice, geometry, device) && comparable;
    if (comparable && layout_of(device) != *parsed) {
      problems_.add(record.slices.at,
                    fmt::format("slices describes {}, but layout describes {}", to_string(geometry, layout_of(device)),
                                to_string(geometry, *parsed)));
    }
    device.geometry = std::move(geometry);
    return device;
  }

  // The parsed layout line, or nullopt if it is missing or wrong, which has then been reported.
  std::optional<Layout> layout_in(const DeviceRecord& record, const Geometry& geometry) {
    if (record.layout.at.line == 0 || record.layout.wrong) return std::nullopt;
    auto parsed = parse_layout(geometry, record.layout.value);
    for (const auto& problem : parsed.problems) problems_.add(record.layout.at_offset(problem.offset), problem.message);
    if (!parsed.problems.empty()) return std::nullopt;
    return std::move(parsed.layout);
  }

  // Adds the slice with its replicas. False if its profile or start is not known. Replicas are checked first, so that
  // their problems are reported even if the profile is wrong.
  bool add_slice(const SliceRecord& record, const Geometry& geometry, PlannedDevice& device) {
    PlannedSlice planned;
    for (const auto& replica : record.replicas) planned.replicas.push_back(replica_of(replica));
    planned.reserved = record.reserved.value.value_or(false);
    if (planned.reserved && !planned.replicas.empty()) {
      problems_.add(record.reserved.at, "a reserved slice has no replicas");
    }
    if (record.profile.value.empty()) return false;
    const auto profile = find_profile(geometry, record.profile.value);
    if (!profile) {
      problems_.add(record.profile.at, profile.error().message);
      return false;
    }
    planned.slice = {static_cast<std::uint16_t>(*profile), static_cast<std::uint16_t>(record.start.value)};
    device.slices.push_back(std::move(planned));
    return record.start.at.line != 0 && !record.start.wrong;
  }

  // Buckets must ascend, because a request goes to the first one whose size_max is large enough.
  Replica replica_of(const ReplicaRecord& record) {
    Replica replica{.service = record.service,
                    .buckets = {},
                    .processes = record.processes,
                    .load = record.load,
                    .rate_max_per_s = record.rate_max_per_s};
    std::int64_t largest = 0;
    for (const auto& bucket : record.buckets.value) {
      const bool known = bucket.size_max.at.line != 0 && !bucket.size_max.wrong;
      if (known && bucket.size_max.value <= largest) {
        problems_.add(record.buckets.at, fmt::format("buckets of {} must ascend in size_max",
                                                     record.service.empty() ? "a replica" : record.service));
      }
      // The maximum, so that one small bucket gives one message and not one for each bucket after it.
      if (known) largest = std::max(largest, bucket.size_max.value);
      replica.buckets.push_back({.size_max = bucket.size_max.value, .batch_size = bucket.batch_size});
    }
    return replica;
  }

  Problems& problems_;
  std::map<std::string, int> lines_;
  std::int64_t host_starts_ = 0;
};

ReplicaRecord record_of(const Replica& replica) {
  ReplicaRecord record;
  record.service = replica.service;
  record.processes = replica.processes;
  record.load = replica.load;
  record.rate_max_per_s = replica.rate_max_per_s;
  for (const auto& bucket : replica.buckets) {
    BucketRecord& last = record.buckets.value.emplace_back();
    last.size_max.value = bucket.size_max;
    last.batch_size = bucket.batch_size;
  }
  return record;
}

// The inverse of device_of(): layout and slices are both written from the same slices, so they agree.
DeviceRecord record_of(const PlannedDevice& device) {
  const Geometry& geometry = device.geometry;
  DeviceRecord record;
  record.name.value = device.name;
  record.type.value = device.type;
  // A CPU host is not in the catalogue of GPUs, so its size is written. The last profile is the whole host.
  if (geometry.units_per_core > 0) {
    record.cores.value = geometry.units / geometry.units_per_core;
    record.memory_gib.value = geometry.profiles.back().memory_gib.value;
    record.quota.value = geometry.units_per_core > 1;
  }
  record.layout.value = to_string(geometry, layout_of(device));
  for (const auto& planned : device.slices) {
    SliceRecord slice;
    slice.profile.value = geometry.profiles[planned.slice.profile].name;
    slice.start.value = planned.slice.start;
    if (planned.reserved) slice.reserved.value = true;
    for (const auto& replica : planned.replicas) slice.replicas.push_back(record_of(replica));
    record.slices.value.push_back(std::move(slice));
  }
  return record;
}

}  // namespace

// A text that is no JSON ends at once; every other problem is collected, and the plan is returned only if there is
// none.
Result<Plan> parse_plan(const Source& source) {
  Problems problems(source.name);
  const auto root = parse_json(source, problems);
  if (!root) return problems.error();
  PlanRecord record;
  read_document(*root, problems, record);
  Plan plan = PlanAssembler(problems).assemble(record);
  if (!problems.empty()) return problems.error();
  return plan;
}

// Defaults are written too, so that a plan does not change its meaning if a default does.
std::string write_plan(const Plan& plan) {
  PlanRecord record;
  for (const auto& device : plan.devices) record.devices.push_back({record_of(device), {}, {}, false});
  return to_json(write_document(record, Defaults::keep)) + "\n";
}

Shape plan_shape() { return shape_of<PlanRecord>(); }

}  // namespace tangram::formats

// The fleet file: groups of equal devices.
//
// Fields depend on each other (a layout on the type, for a CPU host also on its cores), so a group is read into a
// record with places first and put together afterwards. Each check runs only on values that are right in themselves, so
// that one mistake gives one message.

#include "formats/fleet_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "formats/describe.h"
#include "formats/detail/shapes.h"

namespace tangram::formats {
namespace {

constexpr int kDevicesMax = 100'000;  // Of one entry.

// An entry as the file has it, with the places of the fields that checks report.
struct GroupRecord {
  Located<std::string> type;
  Located<std::optional<std::string>> name;
  Located<std::optional<int>> count;
  Located<bool> unlimited;
  double price_per_hour = 0;
  Located<ProfileSet> profiles{.value = ProfileSet::all, .at = {}, .begin = {}};
  Located<std::optional<std::string>> layout;
  Located<std::optional<std::string>> reserved;
  Located<std::optional<int>> cores;
  Located<std::optional<double>> memory_gib;
  Located<std::optional<bool>> quota;
};

struct FleetRecord {
  SparePolicy spare = SparePolicy::none;
  std::vector<Located<GroupRecord>> devices;
};

}  // namespace

template <typename Visitor>
void describe(Visitor& v, SparePolicy& policy) {
  v.name("none", policy, SparePolicy::none, "No spare capacity.");
  v.name("one_device", policy, SparePolicy::one_device,
         "Every service keeps the capacity it needs when any one device is lost.");
}

template <typename Visitor>
void describe(Visitor& v, ProfileSet& set) {
  v.name("base", set, ProfileSet::base, "The plain profiles.");
  v.name("double", set, ProfileSet::double_memory, "Also the smallest profile with double memory.");
  v.name("me", set, ProfileSet::media, "Also the profiles with media engines.");
  v.name("all", set, ProfileSet::all, "All profiles of the device.");
}

namespace {

template <typename Visitor>
void describe(Visitor& v, GroupRecord& c) {
  v.about("Device group", "A number of equal devices.");
  v.field("type", c.type, {.required = true, .names = &device_type_names}, "The device type.");
  v.field("name", c.name, {.text = TextRule::name}, "The prefix of the devices' names; default: the type.");
  v.field("count", c.count, {.min = 1, .max = kDevicesMax},
          "The number of devices; default 1, unless `unlimited` is given.");
  v.field("unlimited", c.unlimited, "As many devices as the plan needs; cannot be combined with `count`.");
  v.field("price_per_hour", c.price_per_hour, {.min = 0, .max = 1e9}, "The cost of one device, in any currency.");
  v.field("profiles", c.profiles, "The MigProfiles that a plan may use.");
  v.field("layout", c.layout, "The current cuts of each device: `4g.40gb@0 + 3g.40gb@4`, or `empty`.");
  v.field("reserved", c.reserved,
          "Slices of each device that others use, `3g.40gb@4`: no plan cuts them or puts anything on them.");
  v.field("cores", c.cores, {.min = 1, .max = kCpuCoresMax},
          "Only for cpu: the number of cores; default: those of this machine.");
  v.field("memory_gib", c.memory_gib, {.min = 0, .max = 1e6},
          "Only for cpu: the memory; default: that of this machine.");
  v.field("quota", c.quota, "Only for cpu: CPU quotas can be set, so it is cut by quarters of a core.");
}

template <typename Visitor>
void describe(Visitor& v, FleetRecord& c) {
  v.about("Fleet", "The devices that can be cut.");
  v.field("spare", c.spare, "The spare capacity in case a device is lost.");
  v.field("devices", c.devices, {.required = true, .items_min = 1}, "The devices, in groups of equal ones.");
}

// The host that the entry describes; what it leaves out is taken from this machine.
CpuHost host_of(const GroupRecord& record, const CpuHost& fallback) {
  return {.cores = record.cores.value.value_or(fallback.cores),
          .memory_gib = record.memory_gib.value.value_or(fallback.memory_gib),
          .quota = record.quota.value.value_or(fallback.quota)};
}

// True if the entry gives any property of the host; otherwise the group follows whatever machine reads the fleet.
bool names_host(const GroupRecord& record) {
  return record.cores.value || record.memory_gib.value || record.quota.value;
}

// Conditions between the fields of one entry that do not need its geometry.
void check_record(const GroupRecord& record, Problems& problems) {
  if (record.count.at.line != 0 && record.unlimited.value) {
    problems.add(record.unlimited.at, "count and unlimited cannot be combined");
  }
  // A wrong type has been reported, and then it is unknown which fields belong to it.
  if (record.type.value == "cpu" || record.type.value.empty()) return;
  const auto only_cpu = [&](Position at, std::string_view key) {
    if (at.line != 0) problems.add(at, fmt::format("{} applies only to type cpu, not to {}", key, record.type.value));
  };
  only_cpu(record.cores.at, "cores");
  only_cpu(record.memory_gib.at, "memory_gib");
  only_cpu(record.quota.at, "quota");
}

// The layout of today must consist of profiles that the entry allows; otherwise a plan could not keep it.
void check_profiles(const GroupRecord& record, const Geometry& geometry, const Layout& layout, Problems& problems) {
  const Geometry allowed = restrict_to(geometry, record.profiles.value);
  for (const auto& slice : layout.slices) {
    const std::string& name = geometry.profiles[slice.profile].name;
    const bool found = std::ranges::any_of(allowed.profiles, [&](const MigProfile& p) { return p.name == name; });
    if (found) continue;
    return problems.add(record.layout.at, fmt::format("layout contains {}, which is not in profiles: {}", name,
                                                      to_string(record.profiles.value)));
  }
}

// The slices that are right; the others are reported. Offsets within the line become columns of the file, so a message
// points at the wrong slice itself.
ParsedLayout parse_slices(const Located<std::optional<std::string>>& text, const Geometry& geometry,
                          Problems& problems) {
  auto parsed = parse_layout(geometry, *text.value);
  for (const auto& problem : parsed.problems) problems.add(text.at_offset(problem.offset), problem.message);
  return parsed;
}

// What others use is cut already, so the layout of today has it.
void check_reserved(const GroupRecord& record, const Geometry& geometry, const DeviceGroup& group, Problems& problems) {
  for (const auto& slice : group.reserved.slices) {
    if (std::ranges::find(group.layout->slices, slice) != group.layout->slices.end()) continue;
    problems.add(record.reserved.at,
                 fmt::format("reserved has {}, which is not in layout: {}", to_string(geometry, Layout{{slice}}),
                             to_string(geometry, *group.layout)));
  }
}

void read_slices(const GroupRecord& record, const CpuHost& host, DeviceGroup& group, Problems& problems) {
  // A layout is only valid for one size of host. The group stores that size, so that the layout means the same on a
  // machine with other cores.
  if (group.type == "cpu") group.host = host_of(record, host);
  // The geometry would be that of another host, and the layout would get messages that make no sense.
  if (record.cores.wrong || record.quota.wrong) return;
  const Geometry geometry = group_geometry(group, host);
  bool right = true;
  if (record.reserved.value) {
    auto reserved = parse_slices(record.reserved, geometry, problems);
    right = reserved.problems.empty();
    group.reserved = std::move(reserved.layout);
  }
  if (!record.layout.value) return;
  auto layout = parse_slices(record.layout, geometry, problems);
  group.layout = std::move(layout.layout);
  // Slices that others use may have any profile.
  Layout own = *group.layout;
  std::erase_if(own.slices, [&](const Slice& slice) {
    return std::ranges::find(group.reserved.slices, slice) != group.reserved.slices.end();
  });
  if (!record.profiles.wrong) check_profiles(record, geometry, own, problems);
  if (right && layout.problems.empty()) check_reserved(record, geometry, group, problems);
}

// Requires a known type. Adds the problems of the layout.
DeviceGroup group_of(const GroupRecord& record, const CpuHost& host, Problems& problems) {
  DeviceGroup group;
  group.type = record.type.value;
  group.name = record.name.value.value_or(group.type);
  group.price_per_hour = record.price_per_hour;
  group.profiles = record.profiles.value;
  // No count means unlimited.
  if (!record.unlimited.value) group.count = record.count.value.value_or(1);
  if (group.type == "cpu" && names_host(record)) group.host = host_of(record, host);
  if (record.layout.value || record.reserved.value) read_slices(record, host, group, problems);
  return group;
}

// Devices are called name-0, name-1, and so on, so two groups of one name would name the same devices.
void check_names(const std::vector<Located<GroupRecord>>& devices, Problems& problems) {
  std::map<std::string, int> seen;
  for (const auto& device : devices) {
    const auto& record = device.value;
    if (record.name.wrong || (!record.name.value && record.type.value.empty())) continue;  // Its name is unknown.
    const auto [first, fresh] = seen.emplace(record.name.value.value_or(record.type.value), device.at.line);
    if (fresh) continue;
    problems.add(record.name.value ? record.name.at : record.type.at,
                 fmt::format("the name {} is already used by the entry in line {}; give this entry another name",
                             first->first, first->second));
  }
}

}  // namespace

// The full geometry, whatever `profiles` allows: the indices in a layout refer to it.
Geometry group_geometry(const DeviceGroup& group, const CpuHost& host) {
  if (group.type == "cpu") return cpu_geometry(group.host.value_or(host));
  const Geometry* geometry = find_geometry(group.type);
  TANGRAM_CHECK(geometry != nullptr, "the type of a group is in the catalogue");
  return *geometry;
}

Result<Fleet> parse_fleet(const Source& source, const CpuHost& host) {
  Problems problems(source.name);
  const auto root = parse_yaml(source, problems);
  if (!root) return problems.error();
  FleetRecord record;
  read_document(*root, problems, record);
  Fleet fleet;
  fleet.spare = record.spare;
  for (const auto& device : record.devices) {
    check_record(device.value, problems);
    // Without a type there is no geometry. The missing type has been reported, so the fleet is not returned.
    if (device.value.type.value.empty()) continue;
    fleet.groups.push_back(group_of(device.value, host, problems));
  }
  check_names(record.devices, problems);
  if (!problems.empty()) return problems.error();
  return fleet;
}

// A name that equals the type is the default and is left out, as are all other defaults.
std::string write_fleet(const Fleet& fleet) {
  FleetRecord record;
  record.spare = fleet.spare;
  for (const auto& group : fleet.groups) {
    GroupRecord device;
    device.type.value = group.type;
    if (group.name != group.type) device.name.value = group.name;
    device.count.value = group.count;
    device.unlimited.value = !group.count.has_value();
    device.price_per_hour = group.price_per_hour;
    device.profiles.value = group.profiles;
    if (group.host) {
      device.cores.value = group.host->cores;
      device.memory_gib.value = group.host->memory_gib;
      device.quota.value = group.host->quota;
    }
    const bool cut = group.layout || !group.reserved.slices.empty();
    TANGRAM_CHECK(!cut || group.type != "cpu" || group.host, "a host that is cut says how large it is");
    // The fallback host is empty on purpose: the check above ensures that it is not used.
    if (group.layout) device.layout.value = to_string(group_geometry(group, {}), *group.layout);
    if (!group.reserved.slices.empty()) {
      device.reserved.value = to_string(group_geometry(group, {}), group.reserved);
    }
    record.devices.push_back({std::move(device), {}, {}, false});
  }
  return to_yaml(write_document(record, Defaults::skip));
}

Shape fleet_shape() { return shape_of<FleetRecord>(); }

}  // namespace tangram::formats

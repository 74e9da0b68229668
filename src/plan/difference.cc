// The difference of two plans, with as little change as possible.
//
// Three decisions, from the outside in. The Matcher decides which device takes which role of the new plan: equal
// devices first, then a cheapest assignment of the rest. The Placer decides where on that device the slices of the
// role lie, so that slices with the same profile and replicas stay where they are. slice_differences() then only
// compares.
//
// Invariant: each role gets exactly one device of its geometry, and each device at most one role.
//
// Example: a plan that swaps the contents of gpu-0 and gpu-1 has an empty difference, because each device takes the
// other's role.

#include "plan/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "plan/detail/assignment.h"
#include "plan/detail/slice_pairs.h"

namespace tangram::plan {
namespace {

using detail::change_cost;
using detail::Contents;
using detail::DeviceKey;
using detail::key_of;
using detail::pair_slices;
using detail::same_replicas;
using detail::SlicePair;
using detail::whole_cost;

// best_starts() tries all subsets of pairs, up to 2^12. Hosts have far more slices than that, and there the starts are
// left as the plan says.
constexpr std::size_t kMovedSlicesMax = 12;

// The contents of a device as text: equal texts mean equal devices. `placed`: the starts count.
std::string content_key(const PlannedDevice& device, bool placed) {
  std::vector<std::string> parts;
  for (const auto& planned : device.slices) {
    // What others use has its place, whether the others may move or not.
    parts.push_back(fmt::format("{}@{}{}\n{}", planned.slice.profile,
                                placed || planned.reserved ? planned.slice.start : 0, planned.reserved ? "!" : "",
                                key_of(planned.replicas)));
  }
  std::ranges::sort(parts);
  std::string key;
  for (const auto& part : parts) key += part + "\x1f";
  return key;
}

bool overlap(const Geometry& geometry, const Slice& a, const Slice& b) {
  const int a_end = a.start + geometry.profiles[a.profile].units;
  const int b_end = b.start + geometry.profiles[b.profile].units;
  return a.start < b_end && b.start < a_end;
}

// Places the slices of a role on a device that is already cut. Slices that others use lie where they are. Slices that
// have a partner lie where it lies; the others go where they fit, on units that are free now where possible.
// Requires devices of the same geometry.
class Placer {
 public:
  Placer(const PlannedDevice& before, const PlannedDevice& role) : before_(before), role_(role) {}

  // The starts of the role's slices, or nullopt if the partners leave no room for the others.
  std::optional<std::vector<std::uint16_t>> place(const std::vector<SlicePair>& pairs) {
    starts_.assign(role_.slices.size(), 0);
    open_.clear();
    Layout layout;
    std::vector<char> fixed(role_.slices.size(), 0);
    const auto fix = [&](std::size_t i, const Slice& slice) {
      fixed[i] = 1;
      starts_[i] = slice.start;
      layout = with_slice(role_.geometry, std::move(layout), slice);
    };
    for (std::size_t i = 0; i < role_.slices.size(); ++i) {
      if (role_.slices[i].reserved) fix(i, role_.slices[i].slice);
    }
    for (const auto& pair : pairs) {
      // What others use now may lie where the partner lay.
      const Slice& slice = before_.slices[pair.before].slice;
      if (!fixed[pair.after] && fits(role_.geometry, layout, slice)) fix(pair.after, slice);
    }
    for (std::size_t i = 0; i < fixed.size(); ++i) {
      if (!fixed[i]) open_.push_back(i);
    }
    // Large slices first, because they have the fewest starts. Among equals, those whose service already runs on the
    // device: they should exist before the old replica goes.
    std::ranges::stable_sort(open_, {},
                             [&](std::size_t i) { return -2 * profile_of(i).units - (takes_over(i) ? 1 : 0); });
    if (!place_from(0, layout)) return std::nullopt;
    return starts_;
  }

 private:
  const MigProfile& profile_of(std::size_t i) const { return role_.geometry.profiles[role_.slices[i].slice.profile]; }

  // True if a service of the slice has a replica on the device now.
  bool takes_over(std::size_t i) const {
    const auto here = [&](const Replica& wanted) {
      return std::ranges::any_of(before_.slices, [&](const PlannedSlice& planned) {
        return std::ranges::find(planned.replicas, wanted.service, &Replica::service) != planned.replicas.end();
      });
    };
    return std::ranges::any_of(role_.slices[i].replicas, here);
  }

  // How many of today's slices would have to go before this one can be cut.
  int slices_in_the_way(const Slice& slice) const {
    return static_cast<int>(std::ranges::count_if(
        before_.slices, [&](const PlannedSlice& planned) { return overlap(role_.geometry, planned.slice, slice); }));
  }

  // All starts, those that disturb the fewest of today's slices first, and among equals the start that the plan names.
  std::vector<Slice> choices(std::size_t i) const {
    std::vector<Slice> slices;
    for (const int start : profile_of(i).starts) {
      slices.push_back({role_.slices[i].slice.profile, static_cast<std::uint16_t>(start)});
    }
    std::ranges::stable_sort(slices, {}, [&](const Slice& slice) {
      return 2 * slices_in_the_way(slice) + (slice.start == role_.slices[i].slice.start ? 0 : 1);
    });
    return slices;
  }

  // Backtracks over the starts of open_[index] and later. Requires a layout with everything placed so far. A device
  // has at most kMovedSlicesMax slices here, so the depth is small.
  bool place_from(std::size_t index, const Layout& layout) {
    if (index == open_.size()) return true;
    for (const Slice& slice : choices(open_[index])) {
      if (!fits(role_.geometry, layout, slice)) continue;
      starts_[open_[index]] = slice.start;
      if (place_from(index + 1, with_slice(role_.geometry, layout, slice))) return true;
    }
    return false;
  }

  const PlannedDevice& before_;
  const PlannedDevice& role_;
  std::vector<std::size_t> open_;
  std::vector<std::uint16_t> starts_;
};

// The starts of the role on the device such that the most valuable set of pairs stays in place. Sets are tried in
// descending value until the other slices have room; with the empty set the role's own layout is always possible.
std::vector<std::uint16_t> best_starts(const PlannedDevice& before, const PlannedDevice& role) {
  std::vector<SlicePair> pairs = pair_slices(before, role, false);
  // What others use stays where it is; the placer sees to it.
  std::erase_if(pairs, [&](const SlicePair& pair) { return role.slices[pair.after].reserved; });
  Placer placer(before, role);
  std::vector<std::uint32_t> sets(std::size_t{1} << pairs.size());
  // The value of a pair is what it saves: destroying one slice and creating the other, less the change of replicas.
  const auto value = [&](std::uint32_t set) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (!(set >> i & 1u)) continue;
      const PlannedSlice& a = before.slices[pairs[i].before];
      const PlannedSlice& b = role.slices[pairs[i].after];
      sum += whole_cost(a) + whole_cost(b) - change_cost(a.replicas, b.replicas);
    }
    return sum;
  };
  for (std::uint32_t set = 0; set < sets.size(); ++set) sets[set] = set;
  std::ranges::stable_sort(sets, std::greater{}, value);
  for (const auto set : sets) {
    std::vector<SlicePair> held;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (set >> i & 1u) held.push_back(pairs[i]);
    }
    if (auto starts = placer.place(held)) return *starts;
  }
  std::vector<std::uint16_t> own;
  for (const auto& planned : role.slices) own.push_back(planned.slice.start);
  return own;
}

// The role under the device's name, with its slices moved if that is allowed and affordable.
PlannedDevice placed_role(const PlannedDevice& before, const PlannedDevice& role, bool move) {
  PlannedDevice after = role;
  after.name = before.name;
  if (!move || role.slices.size() > kMovedSlicesMax || before.slices.size() > kMovedSlicesMax) return after;
  const auto starts = best_starts(before, role);
  for (std::size_t i = 0; i < starts.size(); ++i) after.slices[i].slice.start = starts[i];
  std::ranges::sort(after.slices, {}, [](const PlannedSlice& planned) { return planned.slice.start; });
  return after;
}

// Compares two layouts of the same device. A slice is the same slice only if profile and start agree.
std::vector<SliceDifference> slice_differences(const PlannedDevice& before, const PlannedDevice& after) {
  std::vector<SliceDifference> result;
  std::vector<char> found(after.slices.size(), 0);
  for (const auto& a : before.slices) {
    const auto b = std::ranges::find(after.slices, a.slice, &PlannedSlice::slice);
    if (b == after.slices.end()) {
      result.push_back({SliceChange::destroyed, a.slice, a.replicas, {}, false});
      continue;
    }
    found[static_cast<std::size_t>(b - after.slices.begin())] = 1;
    const bool same = same_replicas(a.replicas, b->replicas);
    result.push_back({same ? SliceChange::kept : SliceChange::changed, a.slice, a.replicas, b->replicas, b->reserved});
  }
  for (std::size_t i = 0; i < after.slices.size(); ++i) {
    const PlannedSlice& b = after.slices[i];
    if (!found[i]) result.push_back({SliceChange::created, b.slice, {}, b.replicas, b.reserved});
  }
  std::ranges::stable_sort(result, {}, [](const SliceDifference& slice) { return slice.slice.start; });
  return result;
}

void count(const SliceDifference& slice, DifferenceCounts& counts) {
  switch (slice.change) {
    case SliceChange::kept: ++counts.slices_kept; break;
    case SliceChange::changed: ++counts.slices_changed; break;
    case SliceChange::destroyed: ++counts.slices_destroyed; break;
    case SliceChange::created: ++counts.slices_created; break;
  }
  const ReplicaChanges changes = compare_replicas(slice.before, slice.after);
  counts.replicas_kept += static_cast<int>(changes.kept.size());
  counts.replicas_retuned += static_cast<int>(changes.retuned.size());
  counts.replicas_stopped += static_cast<int>(changes.stopped.size());
  counts.replicas_loaded += static_cast<int>(changes.loaded.size());
}

// Decides which device takes which role. Devices that are already right are taken out first, so the cubic assignment
// only sees the rest.
class Matcher {
 public:
  Matcher(std::vector<PlannedDevice> devices, const Plan& after, const DifferenceOptions& options)
      : devices_(std::move(devices)),
        after_(after),
        options_(options),
        device_of_(after.devices.size(), kNone),
        taken_(devices_.size(), 0) {}

  // By role of the new plan: the index of its device.
  std::vector<std::size_t> match() {
    // Equal devices under their own name first: nothing about them changes, not even the name.
    match_equal(true);
    if (options_.rename) {
      match_equal(false);
      match_rest();
    } else {
      match_names();
    }
    return device_of_;
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  static constexpr std::int64_t kForeignCost = std::int64_t{1} << 40;  // More than all changes together.

  void take(std::size_t role, std::size_t device) {
    device_of_[role] = device;
    taken_[device] = 1;
  }

  // Without renaming every role goes to the device of its name; all_devices() has made sure that it exists.
  void match_names() {
    if (indices_.empty()) index_names();
    for (std::size_t role = 0; role < after_.devices.size(); ++role) {
      if (device_of_[role] == kNone) take(role, indices_.at(after_.devices[role].name));
    }
  }

  void index_names() {
    for (std::size_t i = 0; i < devices_.size(); ++i) indices_.emplace(devices_[i].name, i);
  }

  // Gives roles to devices that already have their contents. `named`: only under the same name.
  void match_equal(bool named) {
    if (indices_.empty()) index_names();
    std::multimap<std::string, std::size_t> free;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (!taken_[i]) free.emplace(full_key(devices_[i]), i);
    }
    for (std::size_t role = 0; role < after_.devices.size(); ++role) {
      if (device_of_[role] != kNone) continue;
      auto [begin, end] = free.equal_range(full_key(after_.devices[role]));
      for (auto found = begin; found != end; ++found) {
        const PlannedDevice& device = devices_[found->second];
        const bool possible =
            named ? device.name == after_.devices[role].name : device.geometry == after_.devices[role].geometry;
        if (!possible) continue;
        take(role, found->second);
        free.erase(found);
        break;
      }
    }
  }

  std::string full_key(const PlannedDevice& device) const {
    return device.type + "\x1e" + content_key(device, !options_.move);
  }

  // Assigns the remaining roles at the least cost, separately for each geometry: a role cannot move to another kind of
  // device.
  void match_rest() {
    for (std::size_t first = 0; first < after_.devices.size(); ++first) {
      if (device_of_[first] != kNone) continue;
      const Geometry& geometry = after_.devices[first].geometry;
      std::vector<std::size_t> roles;
      std::vector<std::size_t> candidates;
      for (std::size_t role = first; role < after_.devices.size(); ++role) {
        if (device_of_[role] == kNone && after_.devices[role].geometry == geometry) roles.push_back(role);
      }
      for (std::size_t i = 0; i < devices_.size(); ++i) {
        if (!taken_[i] && devices_[i].geometry == geometry) candidates.push_back(i);
      }
      match_group(roles, candidates);
    }
  }

  void match_group(const std::vector<std::size_t>& roles, const std::vector<std::size_t>& candidates) {
    Contents contents;
    std::vector<DeviceKey> role_keys;
    std::vector<DeviceKey> device_keys;
    for (const auto role : roles) role_keys.push_back(contents.key_of(after_.devices[role]));
    for (const auto device : candidates) device_keys.push_back(contents.key_of(devices_[device]));
    // The name is a tie-break: with this scale all names together cost less than the smallest change.
    const auto scale = static_cast<std::int64_t>(roles.size()) + 1;
    const auto columns = assign(roles.size(), candidates.size(), [&](std::size_t row, std::size_t column) {
      const PlannedDevice& role = after_.devices[roles[row]];
      const PlannedDevice& device = devices_[candidates[column]];
      // Among equally good devices, the one with the same name.
      const bool same_name = role.name == device.name;
      // A role beside slices that others use is for a device that has them.
      const bool foreign = !same_name && reserved_of(role) != reserved_of(device);
      return scale * contents.cost(device_keys[column], role_keys[row], !options_.move) + (same_name ? 0 : 1) +
             (foreign ? kForeignCost : 0);
    });
    for (std::size_t row = 0; row < roles.size(); ++row) take(roles[row], candidates[columns[row]]);
  }

  std::vector<PlannedDevice> devices_;
  const Plan& after_;
  DifferenceOptions options_;
  std::vector<std::size_t> device_of_;
  std::vector<char> taken_;
  std::map<std::string, std::size_t> indices_;
};

// Everything below assumes valid layouts, so invalid ones are rejected here.
Result<Nothing> check_layouts(const Plan& plan) {
  for (const auto& device : plan.devices) {
    const std::string wrong = why_invalid(device.geometry, layout_of(device));
    if (!wrong.empty()) return Error{ErrorCode::invalid, fmt::format("{}: {}", device.name, wrong)};
  }
  return Nothing{};
}

// Whether the device has slices that others do not use.
bool cut(const PlannedDevice& device) {
  return std::ranges::any_of(device.slices, [](const PlannedSlice& slice) { return !slice.reserved; });
}

// The device with nothing on it but what others use.
PlannedDevice emptied(const PlannedDevice& device) {
  PlannedDevice empty{device.name, device.type, device.geometry, {}};
  std::ranges::copy_if(device.slices, std::back_inserter(empty.slices), &PlannedSlice::reserved);
  return empty;
}

// Every device that either plan names, with the contents of the old plan. New devices are empty. A device that changes
// its geometry is an error: it would be other hardware.
Result<std::vector<PlannedDevice>> all_devices(const Plan& before, const Plan& after) {
  std::vector<PlannedDevice> devices = before.devices;
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < devices.size(); ++i) known.emplace(devices[i].name, i);
  for (const auto& device : after.devices) {
    const auto found = known.find(device.name);
    if (found == known.end()) {
      devices.push_back(emptied(device));
    } else if (devices[found->second].geometry != device.geometry) {
      return Error{ErrorCode::invalid, fmt::format("{} is of type {} in one plan and of type {} in the other, or of "
                                                   "another size",
                                                   device.name, devices[found->second].type, device.type)};
    }
  }
  return devices;
}

}  // namespace

ReplicaChanges compare_replicas(const std::vector<Replica>& before, const std::vector<Replica>& after) {
  ReplicaChanges changes;
  std::vector<Replica> old_left;
  std::vector<Replica> new_left = after;
  for (const auto& replica : before) {
    const auto same = std::ranges::find(new_left, replica);
    if (same == new_left.end()) {
      old_left.push_back(replica);
      continue;
    }
    changes.kept.push_back(replica);
    new_left.erase(same);
  }
  // A replica of the same service with as many processes keeps its model in memory, so it is retuned instead of loaded
  // again.
  for (const auto& replica : old_left) {
    const auto near = std::ranges::find_if(new_left, [&](const Replica& other) {
      return other.service == replica.service && other.processes == replica.processes;
    });
    if (near == new_left.end()) {
      changes.stopped.push_back(replica);
      continue;
    }
    changes.retuned.push_back({replica, *near});
    new_left.erase(near);
  }
  changes.loaded = std::move(new_left);
  return changes;
}

bool Difference::empty() const {
  return counts.slices_changed == 0 && counts.slices_destroyed == 0 && counts.slices_created == 0;
}

Result<Difference> diff(const Plan& before, const Plan& after, const DifferenceOptions& options) {
  for (const Plan* plan : {&before, &after}) {
    TANGRAM_RETURN_IF_ERROR(check_layouts(*plan));
  }
  TANGRAM_TRY(const auto devices, all_devices(before, after));
  Difference result;
  // Devices without a role in the new plan end up empty.
  for (const auto& device : devices) {
    result.devices.push_back({device, emptied(device), "", {}});
    result.counts.devices_before += cut(device) ? 1 : 0;
  }
  const auto device_of = Matcher(devices, after, options).match();
  for (std::size_t role = 0; role < after.devices.size(); ++role) {
    DeviceDifference& device = result.devices[device_of[role]];
    device.role = after.devices[role].name;
    device.after = placed_role(device.before, after.devices[role], options.move);
    result.target.devices.push_back(device.after);
    result.counts.devices_after += cut(device.after) ? 1 : 0;
  }
  for (auto& device : result.devices) {
    device.slices = slice_differences(device.before, device.after);
    for (const auto& slice : device.slices) count(slice, result.counts);
  }
  return result;
}

bool same_content(const Plan& a, const Plan& b) {
  const auto contents = [](const Plan& plan) {
    std::map<std::string, std::string> by_name;
    for (const auto& device : plan.devices) {
      if (!device.slices.empty()) by_name[device.name] = device.type + "\n" + content_key(device, true);
    }
    return by_name;
  };
  return contents(a) == contents(b);
}

}  // namespace tangram::plan

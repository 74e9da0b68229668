// A model of the devices during a transition: each step either applies or is refused with a reason.
//
// It is the referee of step lists. A replica is in one of two states, loaded or running, and a slice can be destroyed
// only when it is empty. So a list of steps that applies from beginning to end never cuts below a running model.
//
// Invariant: the slices of each device form a valid layout, sorted by start.

#include "plan/live_fleet.h"

#include <fmt/format.h>

#include <algorithm>

namespace tangram::plan {
namespace {

// The error names the device and the action, because a transition may have hundreds of steps.
Error refused(const Step& step, std::string_view reason) {
  return {ErrorCode::invalid, fmt::format("{}: cannot {}: {}", step.device, to_string(step.action), reason)};
}

}  // namespace

std::string_view to_string(StepAction action) {
  switch (action) {
    case StepAction::create: return "create";
    case StepAction::destroy: return "destroy";
    case StepAction::load: return "load";
    case StepAction::unload: return "unload";
    case StepAction::start: return "start";
    case StepAction::drain: return "drain";
    case StepAction::retune: return "retune";
  }
  return "";
}

// Applying a step and then its inverse restores the fleet wherever the step was possible. The table follows the order
// of the enumeration.
Step inverse_of(const Step& step) {
  static constexpr StepAction kInverse[] = {StepAction::destroy, StepAction::create, StepAction::unload,
                                            StepAction::load,    StepAction::drain,  StepAction::start,
                                            StepAction::retune};
  Step inverse;
  inverse.action = kInverse[static_cast<int>(step.action)];
  inverse.device = step.device;
  inverse.slices = step.slices;
  // Retuning goes from one replica to another, so its inverse swaps the two.
  inverse.replica = step.action == StepAction::retune ? step.retuned : step.replica;
  if (step.action == StepAction::retune) inverse.retuned = step.replica;
  inverse.temporary = step.temporary;
  return inverse;
}

LiveFleet::LiveFleet(const Plan& plan) {
  for (const auto& device : plan.devices) {
    add_empty(device.name, device.type, device.geometry);
    for (const auto& planned : device.slices) {
      LiveSlice slice{planned.slice, {}, planned.reserved};
      // A plan that is in force runs everything it names.
      for (const auto& replica : planned.replicas) slice.replicas.push_back({replica, true});
      devices_.back().slices.push_back(std::move(slice));
    }
  }
}

void LiveFleet::add_empty(const std::string& name, const std::string& type, const Geometry& geometry) {
  // Steps name devices, so two devices with one name would be ambiguous.
  const bool fresh = indices_.emplace(name, devices_.size()).second;
  TANGRAM_CHECK(fresh, "names of devices differ");
  devices_.push_back({{name, type, geometry, {}}, {}});
}

Layout LiveFleet::layout_of(const LiveDevice& device) {
  Layout layout;
  for (const auto& slice : device.slices) layout.slices.push_back(slice.slice);
  return layout;
}

// The slice with the replicas that take requests: only those share its capacity.
PlannedSlice LiveFleet::running_on(const LiveSlice& slice) {
  PlannedSlice planned{slice.slice, {}, slice.reserved};
  for (const auto& replica : slice.replicas) {
    if (replica.runs) planned.replicas.push_back(replica.replica);
  }
  return planned;
}

void LiveFleet::reserve(const std::string& name, const Slice& slice) {
  LiveDevice& device = devices_[indices_.at(name)];
  device.slices.push_back({slice, {}, true});
  std::ranges::sort(device.slices, {}, [](const LiveSlice& live) { return live.slice.start; });
}

Result<Nothing> LiveFleet::apply(const Step& step) {
  const auto found = indices_.find(step.device);
  if (found == indices_.end()) return refused(step, "the plan has no such device");
  LiveDevice& device = devices_[found->second];
  switch (step.action) {
    case StepAction::create: return create(device, step);
    case StepAction::destroy: return destroy(device, step);
    default: return change_replica(device, step);
  }
}

// Slices stay sorted by start, so running() gives the same plan whatever the order of steps. An error in the middle
// leaves the earlier slices created.
Result<Nothing> LiveFleet::create(LiveDevice& device, const Step& step) {
  for (const auto& slice : step.slices) {
    const Geometry& geometry = device.device.geometry;
    if (!fits(geometry, layout_of(device), slice)) {
      return refused(step, fmt::format("{}@{} does not fit beside {}", geometry.profiles[slice.profile].name,
                                       slice.start, tangram::to_string(geometry, layout_of(device))));
    }
    device.slices.push_back({slice, {}, false});
    std::ranges::sort(device.slices, {}, [](const LiveSlice& live) { return live.slice.start; });
  }
  return Nothing{};
}

// Requires that nothing is loaded: drain and unload come first.
Result<Nothing> LiveFleet::destroy(LiveDevice& device, const Step& step) {
  for (const auto& slice : step.slices) {
    const auto found = std::ranges::find(device.slices, slice, &LiveSlice::slice);
    if (found == device.slices.end()) return refused(step, "the device has no such slice");
    if (!found->replicas.empty()) return refused(step, "a replica is loaded on it");
    if (found->reserved) return refused(step, "others use the slice");
    device.slices.erase(found);
  }
  return Nothing{};
}

// All steps about a single replica. A slice may hold equal replicas, so the state is part of the search.
Result<Nothing> LiveFleet::change_replica(LiveDevice& device, const Step& step) {
  if (step.slices.size() != 1) return refused(step, "expected one slice");
  const auto slice = std::ranges::find(device.slices, step.slices.front(), &LiveSlice::slice);
  if (slice == device.slices.end()) return refused(step, "the device has no such slice");
  if (slice->reserved) return refused(step, "others use the slice");
  if (step.action == StepAction::load) {
    // A loaded replica holds memory and takes no requests until it is started.
    slice->replicas.push_back({step.replica, false});
    return Nothing{};
  }
  // Draining and retuning need a replica that runs; starting and unloading need one that does not.
  const bool runs = step.action == StepAction::drain || step.action == StepAction::retune;
  const auto replica = std::ranges::find_if(
      slice->replicas, [&](const LiveReplica& live) { return live.replica == step.replica && live.runs == runs; });
  if (replica == slice->replicas.end()) return refused(step, "the slice has no such replica in that state");
  if (step.action == StepAction::unload) slice->replicas.erase(replica);
  if (step.action == StepAction::start) replica->runs = true;
  if (step.action == StepAction::drain) replica->runs = false;
  if (step.action == StepAction::retune) replica->replica = step.retuned;
  return Nothing{};
}

Plan LiveFleet::running() const {
  Plan plan;
  for (const auto& live : devices_) {
    // An uncut device serves nothing and is in no plan.
    if (live.slices.empty()) continue;
    PlannedDevice device = live.device;
    for (const auto& slice : live.slices) device.slices.push_back(running_on(slice));
    plan.devices.push_back(std::move(device));
  }
  return plan;
}

bool LiveFleet::settled() const {
  for (const auto& device : devices_) {
    for (const auto& slice : device.slices) {
      for (const auto& replica : slice.replicas) {
        if (!replica.runs) return false;
      }
    }
  }
  return true;
}

const PlannedDevice& LiveFleet::device(const std::string& name) const {
  const auto found = indices_.find(name);
  TANGRAM_CHECK(found != indices_.end(), "the device is known");
  return devices_[found->second].device;
}

// Whatever is loaded occupies the slice, whether it runs or not.
std::vector<Replica> LiveFleet::loaded(const std::string& device, const Slice& slice) const {
  std::vector<Replica> replicas;
  const auto found = indices_.find(device);
  if (found == indices_.end()) return replicas;
  for (const auto& live : devices_[found->second].slices) {
    if (live.slice != slice) continue;
    for (const auto& replica : live.replicas) replicas.push_back(replica.replica);
  }
  return replicas;
}

// Only the slice that a step touches changes its capacity, so this is all that has to be counted after a step.
std::map<std::string, double> LiveFleet::capacity_of(const std::string& device, const Slice& slice,
                                                     const Capacity& of_replica) const {
  std::map<std::string, double> sums;
  const auto found = indices_.find(device);
  if (found == indices_.end()) return sums;
  const LiveDevice& live = devices_[found->second];
  const auto place = std::ranges::find(live.slices, slice, &LiveSlice::slice);
  if (place == live.slices.end()) return sums;
  const PlannedSlice planned = running_on(*place);
  for (const auto& replica : planned.replicas) sums[replica.service] += of_replica(live.device, planned, replica);
  return sums;
}

// Visits every replica of the fleet. Use capacity_of() for single steps.
std::map<std::string, double> LiveFleet::capacity(const Capacity& of_replica) const {
  std::map<std::string, double> sums;
  for (const auto& live : devices_) {
    for (const auto& slice : live.slices) {
      const PlannedSlice planned = running_on(slice);
      for (const auto& replica : planned.replicas) {
        sums[replica.service] += of_replica(live.device, planned, replica);
      }
    }
  }
  return sums;
}

}  // namespace tangram::plan

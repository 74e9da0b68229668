// Finds the MIG device of each slice of a plan, so that a worker sees its own slice and no other.
//
// CUDA enumerates one MIG device per process and selects it by UUID in CUDA_VISIBLE_DEVICES. UUIDs change with every
// cut, so they are looked up after each cut instead of being stored with the plan.

#include "recut/mig_pins.h"

#include <fmt/format.h>

#include <algorithm>

namespace tangram::recut {

Result<std::string> MigPins::look_up(const Plan& plan) {
  // A plan of host cores only must work without a driver, so the library is not even opened for it.
  const bool any_gpu =
      std::ranges::any_of(plan.devices, [](const auto& device) { return device.geometry.units_per_core == 0; });
  std::map<Key, std::string> found;
  std::string note;
  if (any_gpu) {
    const auto driver = adapters::probe_nvml(nvml_library());
    if (!driver.problem.empty()) {
      // The emulated engine needs no GPU: without `required_` a missing driver is normal and not worth a note.
      if (required_) note = driver.problem + "; GPU slices run on the CPU";
    } else {
      auto uuids = find(plan, driver);
      if (!uuids && required_) return uuids.error();
      // That slices do not exist is normal for an emulated fleet; that they cannot be seen is not.
      if (!uuids && uuids.error().code == ErrorCode::denied) note = uuids.error().message;
      if (uuids) found = std::move(*uuids);
    }
  }
  // The driver is asked before the lock is taken. Asking can take long, and environment() must not wait for it.
  const host::MutexLock lock(mutex_);
  uuids_ = std::move(found);
  return note;
}

Result<Nothing> MigPins::look_up_some(const Plan& plan) {
  const auto driver = adapters::probe_nvml(nvml_library());
  if (!driver.problem.empty())
    return required_ ? Result<Nothing>(Error{ErrorCode::unavailable, driver.problem}) : Nothing{};
  auto found = find(plan, driver);
  if (!found) return required_ ? Result<Nothing>(found.error()) : Nothing{};
  const host::MutexLock lock(mutex_);
  for (const auto& device : plan.devices) {
    std::erase_if(uuids_, [&](const auto& entry) { return entry.first.first == device.name; });
  }
  uuids_.merge(*found);
  return Nothing{};
}

Result<std::map<MigPins::Key, std::string>> MigPins::find(const Plan& plan,
                                                          const adapters::DriverReport& driver) const {
  TANGRAM_TRY(const auto matched, match_devices(plan, driver, of_fleet_ ? choices_of(plan, choices_) : choices_));
  std::map<Key, std::string> uuids;
  for (const auto& [device, gpu] : matched) {
    if (const auto known = check_slices_known(*device, *gpu); !known) return known.error();
    for (const auto& planned : device->slices) {
      if (planned.reserved) continue;  // No worker of ours is there, and how others cut it is their business.
      const Slice& slice = planned.slice;
      std::string uuid = adapters::find_mig_uuid(device->geometry, *gpu, slice);
      if (uuid.empty()) {
        return Error{ErrorCode::not_found,
                     fmt::format("{}: {}@{} does not exist on GPU {}; tangram apply creates it", device->name,
                                 device->geometry.profiles[slice.profile].name, slice.start, gpu->index)};
      }
      uuids[{device->name, slice.start}] = std::move(uuid);
    }
  }
  return uuids;
}

// An empty result leaves CUDA_VISIBLE_DEVICES of the worker as it is in our own environment.
std::vector<std::string> MigPins::environment(const std::string& device, const Slice& slice) const {
  const host::MutexLock lock(mutex_);
  const auto found = uuids_.find({device, slice.start});
  if (found == uuids_.end()) return {};
  return {"CUDA_VISIBLE_DEVICES=" + found->second};
}

}  // namespace tangram::recut

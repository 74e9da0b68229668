#include "recut/mig_pins.h"

#include <fmt/format.h>

#include <algorithm>

namespace tangram::recut {

Result<std::string> MigPins::look_up(const Plan& plan) {
  const bool any_gpu =
      std::ranges::any_of(plan.devices, [](const auto& device) { return device.geometry.units_per_core == 0; });
  std::map<Key, std::string> found;
  std::string note;
  if (any_gpu) {
    const auto driver = adapters::probe_nvml(nvml_library());
    if (!driver.problem.empty()) {
      if (required_) note = driver.problem + "; slices of GPUs run on the processor";
    } else {
      auto uuids = find(plan, driver);
      if (!uuids && required_) return uuids.error();
      if (uuids) found = std::move(*uuids);
    }
  }
  const host::MutexLock lock(mutex_);
  uuids_ = std::move(found);
  return note;
}

Result<std::map<MigPins::Key, std::string>> MigPins::find(const Plan& plan,
                                                          const adapters::DriverReport& driver) const {
  TANGRAM_TRY(const auto matched, match_devices(plan, driver, choices_));
  std::map<Key, std::string> uuids;
  for (const auto& [device, gpu] : matched) {
    for (const auto& planned : device->slices) {
      const Slice& slice = planned.slice;
      std::string uuid = adapters::find_mig_uuid(device->geometry, *gpu, slice);
      if (uuid.empty()) {
        return Error{ErrorCode::not_found,
                     fmt::format("{}: {}@{} is not there on GPU {}; tangram apply cuts it", device->name,
                                 device->geometry.profiles[slice.profile].name, slice.start, gpu->index)};
      }
      uuids[{device->name, slice.start}] = std::move(uuid);
    }
  }
  return uuids;
}

std::vector<std::string> MigPins::environment(const std::string& device, const Slice& slice) const {
  const host::MutexLock lock(mutex_);
  const auto found = uuids_.find({device, slice.start});
  if (found == uuids_.end()) return {};
  return {"CUDA_VISIBLE_DEVICES=" + found->second};
}

}  // namespace tangram::recut

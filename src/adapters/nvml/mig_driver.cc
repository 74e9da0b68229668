// Changes MIG mode, slices and their parts through NVML.
//
// Invariant: each operation either succeeds or tries to restore what was there. A driver can refuse at every step, for
// example because a process still uses one part, and a slice without parts could run nothing.
#include "adapters/nvml/mig_driver.h"

#include <fmt/format.h>

#include <algorithm>

#include "adapters/nvml/reading.h"

namespace tangram::adapters {
namespace {

using namespace nvml_abi;

// Maps the driver's status to an error that says what to do, with the driver's own text in brackets.
Error refusal(const NvmlLibrary& library, Status status) {
  const std::string words = library.describe(status);
  switch (status) {
    case kNoPermission:
      return {ErrorCode::denied,
              fmt::format("this user has no permission: it needs root, or access to mig/config ({})", words)};
    case kInUse: return {ErrorCode::unavailable, fmt::format("it is in use ({})", words)};
    case kInsufficientResources: return {ErrorCode::unavailable, fmt::format("there is no room for it ({})", words)};
    case kResetRequired: return {ErrorCode::unavailable, fmt::format("the GPU must be reset first ({})", words)};
    case kNotFound: return {ErrorCode::not_found, fmt::format("it does not exist ({})", words)};
    default: return {ErrorCode::unavailable, fmt::format("the driver reported an error ({})", words)};
  }
}

// One change of one GPU, with the handles that it needs. They live for one operation only.
class Write {
 public:
  Write(const NvmlLibrary& library, const std::string& gpu_uuid) : library_(library) {
    status_ = library.call<Status(const char*, DeviceHandle*)>("nvmlDeviceGetHandleByUUID", gpu_uuid.c_str(), &device_);
  }

  Result<Nothing> set_mode(bool on) {
    if (status_ != kSuccess) return refusal(library_, status_);
    Status activation = kSuccess;
    const Status status = library_.call<Status(DeviceHandle, unsigned, Status*)>("nvmlDeviceSetMigMode", device_,
                                                                                 on ? 1U : 0U, &activation);
    if (status == kNoPermission) {
      return Error{ErrorCode::denied,
                   "only root can switch MIG mode (CAP_SYS_ADMIN); run with sudo (" + library_.describe(status) + ")"};
    }
    if (status != kSuccess) return refusal(library_, status);
    if (activation == kSuccess) return Nothing{};
    return not_active(on, activation);
  }

  Result<Nothing> create(const SliceOrder& order) {
    TANGRAM_TRY(const auto placement, placement_of(order));
    GpuInstanceHandle slice = nullptr;
    const Status status = library_.call<Status(DeviceHandle, unsigned, const Placement*, GpuInstanceHandle*)>(
        "nvmlDeviceCreateGpuInstanceWithPlacement", device_, static_cast<unsigned>(order.vendor_id), &placement,
        &slice);
    if (status != kSuccess) return refusal(library_, status);
    auto made = make_parts(slice, order.parts);
    // A slice without parts can run nothing, so it is removed again.
    if (!made) destroy_slice(slice);
    return made;
  }

  Result<Nothing> destroy(const SliceOrder& order) {
    TANGRAM_TRY(const auto slice, find(order));
    const auto parts = parts_of(slice);
    // The driver destroys only a slice without parts.
    TANGRAM_RETURN_IF_ERROR(destroy_parts(slice, parts));
    const Status status = destroy_slice(slice);
    if (status == kSuccess) return Nothing{};
    // Best effort: the error of the driver's refusal is the one to report.
    static_cast<void>(make_parts(slice, parts));
    return refusal(library_, status);
  }

  Result<Nothing> remake_parts(const SliceOrder& order) {
    TANGRAM_TRY(const auto slice, find(order));
    const auto parts = parts_of(slice);
    TANGRAM_RETURN_IF_ERROR(destroy_parts(slice, parts));
    auto made = make_parts(slice, order.parts);
    // The old parts fitted before, so they are the state to return to.
    if (!made) static_cast<void>(make_parts(slice, parts));
    return made;
  }

 private:
  // The mode is stored and not active. A GPU that is in use would switch at its next reset, long after this was
  // forgotten, so the switch is taken back. One that needs a reset for it keeps it: the reset is the way on.
  Error not_active(bool on, Status activation) {
    const Error reason = refusal(library_, activation);
    const char* word = on ? "on" : "off";
    if (activation == kResetRequired) {
      return {reason.code,
              fmt::format("{}. The driver keeps the switch: MIG mode is {} after the next reset of the GPU; "
                          "nvidia-smi -mig {} takes that back",
                          reason.message, word, on ? 0 : 1)};
    }
    Status ignored = kSuccess;
    const Status back =
        library_.call<Status(DeviceHandle, unsigned, Status*)>("nvmlDeviceSetMigMode", device_, on ? 0U : 1U, &ignored);
    if (back == kSuccess) return reason;
    return {reason.code, fmt::format("{}. The driver keeps the switch, and it could not be taken back: MIG mode is {} "
                                     "after the next reset of the GPU",
                                     reason.message, word)};
  }

  // The size of a placement comes from the driver's list, the only reliable source of how many units a profile covers.
  Result<Placement> placement_of(const SliceOrder& order) {
    if (status_ != kSuccess) return refusal(library_, status_);
    Placement placements[kPlacementsMax];
    unsigned count = kPlacementsMax;
    const Status status = library_.call<Status(DeviceHandle, unsigned, Placement*, unsigned*)>(
        "nvmlDeviceGetGpuInstancePossiblePlacements_v2", device_, static_cast<unsigned>(order.vendor_id), placements,
        &count);
    if (status != kSuccess) return refusal(library_, status);
    for (unsigned i = 0; i < std::min(count, kPlacementsMax); ++i) {
      if (placements[i].start == static_cast<unsigned>(order.start)) return placements[i];
    }
    return Error{ErrorCode::unavailable, fmt::format("the driver does not allow a start at {}", order.start)};
  }

  Result<GpuInstanceHandle> find(const SliceOrder& order) {
    if (status_ != kSuccess) return refusal(library_, status_);
    GpuInstanceHandle handles[kInstancesMax];
    unsigned count = kInstancesMax;
    const Status status = library_.call<Status(DeviceHandle, unsigned, GpuInstanceHandle*, unsigned*)>(
        "nvmlDeviceGetGpuInstances", device_, static_cast<unsigned>(order.vendor_id), handles, &count);
    if (status != kSuccess) return refusal(library_, status);
    for (unsigned i = 0; i < std::min(count, kInstancesMax); ++i) {
      InstanceInfo info{};
      const Status told =
          library_.call<Status(GpuInstanceHandle, InstanceInfo*)>("nvmlGpuInstanceGetInfo", handles[i], &info);
      if (told == kSuccess && info.placement.start == static_cast<unsigned>(order.start)) return handles[i];
    }
    return refusal(library_, kNotFound);
  }

  // The existing parts in the form of an order, so that they can be made again.
  std::vector<SlicePart> parts_of(GpuInstanceHandle slice) const {
    std::vector<SlicePart> parts;
    for (unsigned number = 0; number < kComputeProfileNumbers; ++number) {
      for (const auto& info : parts_of(slice, number)) {
        parts.push_back({static_cast<int>(number), static_cast<int>(info.placement.start), ""});
      }
    }
    std::ranges::sort(parts, {}, &SlicePart::start);
    return parts;
  }

  std::vector<ComputeInstanceInfo> parts_of(GpuInstanceHandle slice, unsigned number) const {
    std::vector<ComputeInstanceInfo> infos;
    for (const auto handle : part_handles(slice, number)) {
      ComputeInstanceInfo info{};
      const Status told = library_.call<Status(ComputeInstanceHandle, ComputeInstanceInfo*)>(
          "nvmlComputeInstanceGetInfo_v2", handle, &info);
      if (told == kSuccess) infos.push_back(info);
    }
    return infos;
  }

  // The compute profile `number` of the slice, or nullopt if the slice does not offer it.
  std::optional<ComputeProfileInfo> part_profile(GpuInstanceHandle slice, unsigned number) const {
    ComputeProfileInfo info{};
    const Status status = library_.call<Status(GpuInstanceHandle, unsigned, unsigned, ComputeProfileInfo*)>(
        "nvmlGpuInstanceGetComputeInstanceProfileInfo", slice, number, kSharedEngines, &info);
    return status == kSuccess ? std::optional(info) : std::nullopt;
  }

  std::vector<ComputeInstanceHandle> part_handles(GpuInstanceHandle slice, unsigned number) const {
    const auto profile = part_profile(slice, number);
    if (!profile) return {};
    std::vector<ComputeInstanceHandle> handles(kInstancesMax);
    unsigned count = kInstancesMax;
    const Status status = library_.call<Status(GpuInstanceHandle, unsigned, ComputeInstanceHandle*, unsigned*)>(
        "nvmlGpuInstanceGetComputeInstances", slice, profile->id, handles.data(), &count);
    handles.resize(status == kSuccess ? std::min(count, kInstancesMax) : 0);
    return handles;
  }

  // Destroys all parts. If the driver refuses one, the parts destroyed so far are made again.
  Result<Nothing> destroy_parts(GpuInstanceHandle slice, const std::vector<SlicePart>& before) const {
    for (unsigned number = 0; number < kComputeProfileNumbers; ++number) {
      for (const auto handle : part_handles(slice, number)) {
        const Status status = library_.call<Status(ComputeInstanceHandle)>("nvmlComputeInstanceDestroy", handle);
        if (status == kSuccess) continue;
        restore_parts(slice, before);
        return refusal(library_, status);
      }
    }
    return Nothing{};
  }

  // Makes the parts of `before` that are missing now. Best effort: the caller reports the first error.
  void restore_parts(GpuInstanceHandle slice, const std::vector<SlicePart>& before) const {
    const auto left = parts_of(slice);
    for (const auto& part : before) {
      const bool there = std::ranges::any_of(left, [&](const SlicePart& other) { return other.start == part.start; });
      if (!there) static_cast<void>(make_part(slice, part));
    }
  }

  // Makes the ordered parts, or without an order one part with all of the slice's compute. All or none.
  Result<Nothing> make_parts(GpuInstanceHandle slice, const std::optional<std::vector<SlicePart>>& ordered) const {
    if (ordered) {
      for (const auto& part : *ordered) {
        if (const Status status = make_part(slice, part); status != kSuccess) {
          // Nothing to restore: the slice had no parts before this call.
          static_cast<void>(destroy_parts(slice, {}));
          return refusal(library_, status);
        }
      }
      return Nothing{};
    }
    const auto whole = whole_part(library_, slice);
    if (!whole) return Error{ErrorCode::unavailable, "the driver does not report what can run on it"};
    // It fits at one place only, which the driver knows best.
    const Status status = make_anywhere(slice, whole->id);
    return status == kSuccess ? Result<Nothing>(Nothing{}) : refusal(library_, status);
  }

  // Drivers before R525 choose the place of a part themselves: the first free one, which is the same for parts that are
  // made in ascending order.
  Status make_part(GpuInstanceHandle slice, const SlicePart& part) const {
    const auto profile = part_profile(slice, static_cast<unsigned>(part.number));
    if (!profile) return kNotSupported;
    constexpr const char* kPlaced = "nvmlGpuInstanceCreateComputeInstanceWithPlacement";
    if (!library_.has(kPlaced)) return make_anywhere(slice, profile->id);
    ComputeInstanceHandle made = nullptr;
    const Placement placement = part_placement(slice, *profile, static_cast<unsigned>(part.start));
    return library_.call<Status(GpuInstanceHandle, unsigned, const Placement*, ComputeInstanceHandle*)>(
        kPlaced, slice, profile->id, &placement, &made);
  }

  // The placement of a part that starts at `start`, as the driver lists it: from Hopper on a part may cover more than
  // its compute slices, as 3g covers 4. Where the driver does not tell, as many as it has.
  Placement part_placement(GpuInstanceHandle slice, const ComputeProfileInfo& profile, unsigned start) const {
    Placement placements[kPlacementsMax];
    unsigned count = kPlacementsMax;
    const Status status = library_.call<Status(GpuInstanceHandle, unsigned, Placement*, unsigned*)>(
        "nvmlGpuInstanceGetComputeInstancePossiblePlacements", slice, profile.id, placements, &count);
    for (unsigned i = 0; status == kSuccess && i < std::min(count, kPlacementsMax); ++i) {
      if (placements[i].start == start) return placements[i];
    }
    return {start, profile.slice_count};
  }

  Status make_anywhere(GpuInstanceHandle slice, unsigned profile_id) const {
    ComputeInstanceHandle made = nullptr;
    return library_.call<Status(GpuInstanceHandle, unsigned, ComputeInstanceHandle*)>(
        "nvmlGpuInstanceCreateComputeInstance", slice, profile_id, &made);
  }

  Status destroy_slice(GpuInstanceHandle slice) const {
    return library_.call<Status(GpuInstanceHandle)>("nvmlGpuInstanceDestroy", slice);
  }

  const NvmlLibrary& library_;
  DeviceHandle device_ = nullptr;
  Status status_ = kSuccess;
};

}  // namespace

MigDriver::MigDriver(std::unique_ptr<NvmlLibrary> library) : library_(std::move(library)) {}
MigDriver::~MigDriver() = default;

Result<std::unique_ptr<MigDriver>> MigDriver::open(const std::string& path) {
  auto library = std::make_unique<NvmlLibrary>(path);
  if (auto problem = open_problem(*library); !problem.empty()) {
    return Error{library->found() ? ErrorCode::unavailable : ErrorCode::not_found, std::move(problem)};
  }
  return std::unique_ptr<MigDriver>(new MigDriver(std::move(library)));
}

DriverReport MigDriver::read() const { return read_driver(*library_); }

// The change may reset the GPU, so the session that it was made in ends with it.
Result<Nothing> MigDriver::set_mig_mode(const std::string& gpu_uuid, bool on) {
  auto switched = Write(*library_, gpu_uuid).set_mode(on);
  if (!switched) return switched;
  const Status status = library_->begin_again();
  if (status == kSuccess) return switched;
  return Error{ErrorCode::unavailable,
               "MIG mode was switched, and the driver does not answer since: " + library_->describe(status)};
}

Result<Nothing> MigDriver::create(const std::string& gpu_uuid, const SliceOrder& order) {
  return Write(*library_, gpu_uuid).create(order);
}

Result<Nothing> MigDriver::destroy(const std::string& gpu_uuid, const SliceOrder& order) {
  return Write(*library_, gpu_uuid).destroy(order);
}

Result<Nothing> MigDriver::remake_parts(const std::string& gpu_uuid, const SliceOrder& order) {
  return Write(*library_, gpu_uuid).remake_parts(order);
}

}  // namespace tangram::adapters

// Reads GPUs, MIG profiles and live slices from the NVIDIA driver, and compares them with Tangram's geometry tables.
//
// Reading never changes the driver. Every call may fail on its own (old drivers, missing rights), so a failure leaves
// its field empty or sets `problem`, and the rest of the report stays usable.
//
// NVML's names: a GPU instance is a slice here, a compute instance a part of it, and a MIG device a part with a UUID.
#include "adapters/nvml/nvml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "adapters/nvml/abi.h"
#include "adapters/nvml/reading.h"

namespace tangram::adapters {
namespace {

using namespace nvml_abi;

// Bounds the report if a driver returns an absurd count.
constexpr unsigned kGpusMax = 1024;

constexpr double kMibPerGib = 1024;

DriverProfile convert(const ProfileInfoNamed& info) {
  DriverProfile profile;
  profile.vendor_id = static_cast<int>(info.id);
  profile.name = std::string(info.name, strnlen(info.name, sizeof info.name));
  // The driver says "MIG 1g.5gb"; the usual name is without the prefix.
  if (profile.name.starts_with("MIG ")) profile.name.erase(0, 4);
  profile.sm_count = static_cast<int>(info.multiprocessor_count);
  profile.memory_gib = static_cast<double>(info.memory_mib) / kMibPerGib;
  profile.count_max = static_cast<int>(info.instance_count);
  return profile;
}

// Profile number `number` of the GPU. Drivers before R510 know only the version without a name.
std::optional<DriverProfile> read_profile(const NvmlLibrary& library, DeviceHandle device, unsigned number) {
  ProfileInfoNamed named{};
  named.version = kProfileInfoNamedVersion;
  if (library.call<Status(DeviceHandle, unsigned, ProfileInfoNamed*)>("nvmlDeviceGetGpuInstanceProfileInfoV", device,
                                                                      number, &named) == kSuccess) {
    return convert(named);
  }
  ProfileInfo plain{};
  if (library.call<Status(DeviceHandle, unsigned, ProfileInfo*)>("nvmlDeviceGetGpuInstanceProfileInfo", device, number,
                                                                 &plain) != kSuccess) {
    return std::nullopt;
  }
  // Start from zero: a failed call may have written a part of the struct.
  named = {};
  named.id = plain.id;
  named.multiprocessor_count = plain.multiprocessor_count;
  named.instance_count = plain.instance_count;
  named.memory_mib = plain.memory_mib;
  return convert(named);
}

void read_placements(const NvmlLibrary& library, DeviceHandle device, DriverProfile& profile) {
  using Signature = Status(DeviceHandle, unsigned, Placement*, unsigned*);
  Placement placements[kPlacementsMax];
  unsigned count = kPlacementsMax;
  const auto id = static_cast<unsigned>(profile.vendor_id);
  if (library.call<Signature>("nvmlDeviceGetGpuInstancePossiblePlacements_v2", device, id, placements, &count) !=
      kSuccess) {
    return;
  }
  // The driver may report more placements than the array has room for.
  for (unsigned i = 0; i < std::min(count, kPlacementsMax); ++i) {
    profile.starts.push_back(static_cast<int>(placements[i].start));
    profile.units = static_cast<int>(placements[i].size);
  }
  std::ranges::sort(profile.starts);
}

// The compute profiles that a part of the slice may have, by profile number.
std::vector<std::pair<int, ComputeProfileInfo>> read_part_profiles(const NvmlLibrary& library,
                                                                   GpuInstanceHandle slice) {
  std::vector<std::pair<int, ComputeProfileInfo>> list;
  for (unsigned number = 0; number < kComputeProfileNumbers; ++number) {
    ComputeProfileInfo info{};
    const Status status = library.call<Status(GpuInstanceHandle, unsigned, unsigned, ComputeProfileInfo*)>(
        "nvmlGpuInstanceGetComputeInstanceProfileInfo", slice, number, kSharedEngines, &info);
    if (status == kSuccess) list.emplace_back(static_cast<int>(number), info);
  }
  return list;
}

// The UUIDs of the MIG devices of a GPU, by the ids of slice and part.
std::map<std::pair<unsigned, unsigned>, std::string> read_mig_uuids(const NvmlLibrary& library, DeviceHandle device) {
  std::map<std::pair<unsigned, unsigned>, std::string> uuids;
  unsigned count = 0;
  if (library.call<Status(DeviceHandle, unsigned*)>("nvmlDeviceGetMaxMigDeviceCount", device, &count) != kSuccess) {
    return uuids;
  }
  for (unsigned i = 0; i < std::min(count, kInstancesMax); ++i) {
    DeviceHandle part = nullptr;
    unsigned slice_id = 0;
    unsigned part_id = 0;
    // Device numbers can have gaps: "not found" for one does not end the list.
    const bool told =
        library.call<Status(DeviceHandle, unsigned, DeviceHandle*)>("nvmlDeviceGetMigDeviceHandleByIndex", device, i,
                                                                    &part) == kSuccess &&
        library.call<Status(DeviceHandle, unsigned*)>("nvmlDeviceGetGpuInstanceId", part, &slice_id) == kSuccess &&
        library.call<Status(DeviceHandle, unsigned*)>("nvmlDeviceGetComputeInstanceId", part, &part_id) == kSuccess;
    if (told) uuids[{slice_id, part_id}] = library.text("nvmlDeviceGetUUID", part);
  }
  return uuids;
}

using MigUuids = std::map<std::pair<unsigned, unsigned>, std::string>;

// Appends the parts of one slice, by start. Fails as a whole, because a list with a part missing would look like a
// slice with free room.
Status read_parts(const NvmlLibrary& library, GpuInstanceHandle handle, const MigUuids& uuids, DriverSlice& slice) {
  const auto profiles = read_part_profiles(library, handle);
  for (const auto& [number, profile] : profiles) {
    ComputeInstanceHandle handles[kInstancesMax];
    unsigned count = kInstancesMax;
    const Status status = library.call<Status(GpuInstanceHandle, unsigned, ComputeInstanceHandle*, unsigned*)>(
        "nvmlGpuInstanceGetComputeInstances", handle, profile.id, handles, &count);
    if (status != kSuccess) return status;
    for (unsigned i = 0; i < std::min(count, kInstancesMax); ++i) {
      ComputeInstanceInfo info{};
      const Status told = library.call<Status(ComputeInstanceHandle, ComputeInstanceInfo*)>(
          "nvmlComputeInstanceGetInfo_v2", handles[i], &info);
      if (told != kSuccess) return told;
      const auto uuid = uuids.find({static_cast<unsigned>(slice.id), info.id});
      slice.parts.push_back({number, static_cast<int>(info.placement.start), uuid == uuids.end() ? "" : uuid->second});
    }
  }
  std::ranges::sort(slice.parts, {}, &SlicePart::start);
  // A slice is whole if its only part has all of its compute: then one process can use all of it.
  const auto all = whole_part(library, handle);
  slice.whole = slice.parts.size() == 1 && all && all->matches(slice.parts[0].number);
  return kSuccess;
}

// Appends the slices of one profile, or returns the driver's error.
Status read_slices(const NvmlLibrary& library, DeviceHandle device, int vendor_id, const MigUuids& uuids,
                   std::vector<DriverSlice>& slices) {
  GpuInstanceHandle handles[kInstancesMax];
  unsigned count = kInstancesMax;
  const Status status = library.call<Status(DeviceHandle, unsigned, GpuInstanceHandle*, unsigned*)>(
      "nvmlDeviceGetGpuInstances", device, static_cast<unsigned>(vendor_id), handles, &count);
  if (status != kSuccess) return status;
  for (unsigned i = 0; i < std::min(count, kInstancesMax); ++i) {
    InstanceInfo info{};
    const Status told =
        library.call<Status(GpuInstanceHandle, InstanceInfo*)>("nvmlGpuInstanceGetInfo", handles[i], &info);
    if (told != kSuccess) return told;
    DriverSlice slice;
    slice.vendor_id = static_cast<int>(info.profile_id);
    slice.start = static_cast<int>(info.placement.start);
    slice.units = static_cast<int>(info.placement.size);
    slice.id = static_cast<int>(info.id);
    if (const Status parts = read_parts(library, handles[i], uuids, slice); parts != kSuccess) return parts;
    slices.push_back(std::move(slice));
  }
  return kSuccess;
}

// Reads the records that the library wrote into `room`, which was filled with kUntouched before. Drivers 535.43 to
// 535.86 write records of 32 bytes from the call whose records have 24: bytes behind the last short one tell.
std::vector<ProcessInfo> process_records(const std::vector<unsigned char>& room, unsigned count) {
  const std::size_t short_end = count * sizeof(ProcessInfo);
  const std::size_t long_end = count * kProcessInfoLong;
  const bool is_long = std::any_of(room.begin() + static_cast<std::ptrdiff_t>(short_end),
                                   room.begin() + static_cast<std::ptrdiff_t>(long_end),
                                   [](unsigned char byte) { return byte != kUntouched; });
  std::vector<ProcessInfo> infos(count);
  for (unsigned i = 0; i < count; ++i) {
    std::memcpy(&infos[i], room.data() + i * (is_long ? kProcessInfoLong : sizeof(ProcessInfo)), sizeof(ProcessInfo));
  }
  return infos;
}

// One of the driver's lists of processes, by the newest call that the driver has: versions 2 and 3 have the same
// records, and drivers before R510 know only 2.
std::vector<ProcessInfo> list_processes(const NvmlLibrary& library, DeviceHandle device, const std::string& name) {
  for (const char* version : {"_v3", "_v2"}) {
    std::vector<unsigned char> room(kProcessesMax * kProcessInfoLong, kUntouched);
    unsigned count = kProcessesMax;
    const Status status = library.call<Status(DeviceHandle, unsigned*, void*)>((name + version).c_str(), device, &count,
                                                                               static_cast<void*>(room.data()));
    if (status == kSuccess) return process_records(room, std::min(count, kProcessesMax));
    if (status != kNotSupported && status != kFunctionNotFound) break;
  }
  return {};
}

// The processes that the driver reports: all for root, possibly none for other users.
void read_processes(const NvmlLibrary& library, DeviceHandle device, DriverGpu& gpu) {
  for (const char* name : {"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"}) {
    const auto infos = list_processes(library, device, name);
    for (std::size_t i = 0; i < infos.size(); ++i) {
      // No program has a number below 2: such a record is not understood, and nobody must act on it.
      if (infos[i].pid < 2 || infos[i].pid > kProcessIdMax) continue;
      DriverProcess process{static_cast<int>(infos[i].pid), std::nullopt};
      // Without MIG the driver gives no valid instance id, so the process has no slice.
      const auto slice = std::ranges::find(gpu.slices, static_cast<int>(infos[i].gpu_instance_id), &DriverSlice::id);
      if (slice != gpu.slices.end()) process.slice_start = slice->start;
      gpu.processes.push_back(process);
    }
  }
}

void read_mig(const NvmlLibrary& library, DeviceHandle device, DriverGpu& gpu) {
  unsigned current = 0;
  unsigned pending = 0;
  if (library.call<Status(DeviceHandle, unsigned*, unsigned*)>("nvmlDeviceGetMigMode", device, &current, &pending) !=
      kSuccess) {
    return;  // A board without MIG.
  }
  gpu.mig_capable = true;
  gpu.mig_enabled = current == 1;
  // A pending mode takes effect after the next reset of the GPU.
  gpu.mig_pending = pending == 1;
  for (unsigned number = 0; number < kProfileNumbers; ++number) {
    auto profile = read_profile(library, device, number);
    if (!profile) continue;
    profile->number = static_cast<int>(number);
    read_placements(library, device, *profile);
    gpu.profiles.push_back(std::move(*profile));
  }
  // Profiles are listed even with MIG off, since a plan needs them; slices exist only with MIG on.
  if (!gpu.mig_enabled) return;
  const MigUuids uuids = read_mig_uuids(library, device);
  for (const auto& profile : gpu.profiles) {
    const Status status = read_slices(library, device, profile.vendor_id, uuids, gpu.slices);
    if (status == kSuccess) continue;
    gpu.slices_known = false;
    gpu.problem = "cannot list its slices: " + library.describe(status);
    if (status == kNoPermission) gpu.problem += "; that needs root, or access to mig/config";
  }
  std::ranges::sort(gpu.slices, {}, &DriverSlice::start);
}

// The table's profile for a driver's id. Ids are the vendor's own numbers and do not change as names do.
std::optional<std::size_t> profile_with_id(const Geometry& geometry, int vendor_id) {
  for (std::size_t i = 0; i < geometry.profiles.size(); ++i) {
    if (geometry.profiles[i].vendor_id == vendor_id) return i;
  }
  return std::nullopt;
}

// The driver omits a field by leaving it empty or zero; only what it reports is compared.
void compare_profile(const MigProfile& ours, const DriverProfile& theirs, std::vector<std::string>& differences) {
  const auto differs = [&](std::string text) { differences.push_back(std::move(text)); };
  if (!theirs.name.empty() && theirs.name != ours.name) {
    differs(fmt::format("the driver calls {} {}", ours.name, theirs.name));
  }
  if (theirs.sm_count > 0 && (ours.sm_count.value != theirs.sm_count)) {
    differs(
        fmt::format("{} has {} multiprocessors, the table has {}", ours.name, theirs.sm_count,
                    ours.sm_count.evidence == Evidence::unknown ? "unknown" : fmt::format("{}", ours.sm_count.value)));
  }
  if (!theirs.starts.empty() && (theirs.starts != ours.starts || theirs.units != ours.units)) {
    differs(fmt::format("{} starts at {} and covers {}; the table has {} and {}", ours.name,
                        fmt::join(theirs.starts, ","), theirs.units, fmt::join(ours.starts, ","), ours.units));
  }
  if (theirs.count_max > 0 && theirs.count_max != ours.count_max) {
    differs(fmt::format("{} fits {} times, the table has {}", ours.name, theirs.count_max, ours.count_max));
  }
}

}  // namespace

// The part with the most compute. Several profiles may have the same compute and differ in engines only; all of them
// count as whole.
std::optional<WholePart> whole_part(const NvmlLibrary& library, GpuInstanceHandle slice) {
  std::optional<WholePart> best;
  const auto rank = [](const ComputeProfileInfo& info) {
    return std::pair(info.slice_count, info.multiprocessor_count);
  };
  ComputeProfileInfo most{};
  for (const auto& [number, profile] : read_part_profiles(library, slice)) {
    if (!best || rank(profile) > rank(most)) {
      most = profile;
      best = WholePart{number, profile.id, {number}};
    } else if (rank(profile) == rank(most)) {
      best->equals.push_back(number);
    }
  }
  return best;
}

DriverGpu read_gpu(const NvmlLibrary& library, unsigned index) {
  DriverGpu gpu;
  gpu.index = static_cast<int>(index);
  DeviceHandle device = nullptr;
  const Status status = library.call<Status(unsigned, DeviceHandle*)>("nvmlDeviceGetHandleByIndex_v2", index, &device);
  if (status != kSuccess) {
    gpu.problem = library.describe(status);
    gpu.reachable = false;
    return gpu;
  }
  gpu.name = library.text("nvmlDeviceGetName", device);
  gpu.uuid = library.text("nvmlDeviceGetUUID", device);
  PciInfo pci{};
  if (library.call<Status(DeviceHandle, PciInfo*)>("nvmlDeviceGetPciInfo_v3", device, &pci) == kSuccess) {
    // The upper half is the device id, the lower half the vendor's.
    gpu.pci_device_id = static_cast<std::uint16_t>(pci.pci_device_id >> 16U);
    gpu.pci_bus_id = std::string(pci.bus_id, strnlen(pci.bus_id, sizeof pci.bus_id));
  }
  Memory memory{};
  // This question goes to the GPU itself, unlike those about its name and its place on the bus.
  const Status answered = library.call<Status(DeviceHandle, Memory*)>("nvmlDeviceGetMemoryInfo", device, &memory);
  gpu.reachable = answered != kGpuIsLost;
  if (answered == kSuccess) {
    gpu.memory_gib = static_cast<double>(memory.total) / (kMibPerGib * kMibPerGib * kMibPerGib);
  }
  read_mig(library, device, gpu);
  read_processes(library, device, gpu);
  return gpu;
}

DriverReport read_driver(const NvmlLibrary& library) {
  DriverReport report;
  report.library_found = true;
  report.driver_version = library.text("nvmlSystemGetDriverVersion");
  unsigned count = 0;
  if (const Status status = library.call<Status(unsigned*)>("nvmlDeviceGetCount_v2", &count); status != kSuccess) {
    report.problem = "the NVIDIA driver cannot count its GPUs: " + library.describe(status);
  }
  // A GPU that cannot be read has its own `problem` and does not hide the others.
  for (unsigned i = 0; i < std::min(count, kGpusMax); ++i) report.gpus.push_back(read_gpu(library, i));
  return report;
}

std::string open_problem(NvmlLibrary& library) {
  if (!library.found()) {
    // The linker has no codes, only this text for a file that is not there. Anything else is a broken installation.
    const bool absent = library.why_not_loaded().find(
                            library.path() + ": cannot open shared object file: No such file") != std::string::npos;
    return absent ? library.path() + " was not found: no NVIDIA driver is installed"
                  : fmt::format("the NVIDIA driver's library cannot be loaded: {}", library.why_not_loaded());
  }
  const Status status = library.initialise();
  return status == kSuccess ? "" : "the NVIDIA driver does not answer: " + library.describe(status);
}

DriverReport probe_nvml(const std::string& path) {
  NvmlLibrary library(path);
  if (auto problem = open_problem(library); !problem.empty()) {
    DriverReport report;
    report.library_found = library.found();
    report.problem = std::move(problem);
    return report;
  }
  return read_driver(library);
}

std::string find_mig_uuid(const Geometry& geometry, const DriverGpu& gpu, const Slice& slice) {
  for (const auto& live : gpu.slices) {
    const bool same = live.start == slice.start && live.vendor_id == geometry.profiles[slice.profile].vendor_id;
    // A slice that is split into parts has no single UUID to run on.
    if (same && live.whole) return live.parts[0].uuid;
  }
  return "";
}

RecognisedLayout recognise_layout(const Geometry& geometry, const DriverGpu& gpu) {
  RecognisedLayout result;
  for (const auto& slice : gpu.slices) {
    const auto profile = profile_with_id(geometry, slice.vendor_id);
    const Slice ours{static_cast<std::uint16_t>(profile.value_or(0)), static_cast<std::uint16_t>(slice.start)};
    // Only slices that the table allows enter the layout, so that the result is always a valid one.
    if (profile && slice.start >= 0 && fits(geometry, result.layout, ours)) {
      result.layout = with_slice(geometry, std::move(result.layout), ours);
    } else {
      result.unknown.push_back(fmt::format("profile id {} at {}", slice.vendor_id, slice.start));
    }
  }
  return result;
}

std::vector<std::string> compare_profiles(const Geometry& geometry, const DriverGpu& gpu) {
  std::vector<std::string> differences;
  for (const auto& theirs : gpu.profiles) {
    if (const auto ours = profile_with_id(geometry, theirs.vendor_id)) {
      compare_profile(geometry.profiles[*ours], theirs, differences);
    } else {
      differences.push_back(fmt::format("the driver offers {} (id {}), which is not in the table",
                                        theirs.name.empty() ? "a profile" : theirs.name, theirs.vendor_id));
    }
  }
  return differences;
}

}  // namespace tangram::adapters

#include "adapters/nvml/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "adapters/nvml/abi.h"

namespace tangram::adapters {
namespace {

using namespace nvml_abi;

constexpr unsigned kGpusMax = 1024;

// The library, open for as long as this lives.
class Library {
 public:
  Library() : handle_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {}
  ~Library() {
    if (initialised_) call<Status()>("nvmlShutdown");
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool found() const { return handle_ != nullptr; }

  Status initialise() {
    const Status status = call<Status()>("nvmlInit_v2");
    initialised_ = status == kSuccess;
    return status;
  }

  // A function that this version of the library does not have answers "not supported".
  template <typename Signature, typename... Arguments>
  Status call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<Signature*>(dlsym(handle_, name));
    return function == nullptr ? kNotSupported : function(arguments...);
  }

  std::string describe(Status status) const {
    auto* function = reinterpret_cast<const char* (*)(Status)>(dlsym(handle_, "nvmlErrorString"));
    const char* text = function == nullptr ? nullptr : function(status);
    return text == nullptr ? fmt::format("error {}", status) : text;
  }

  // Text that the library writes into a buffer.
  template <typename... Arguments>
  std::string text(const char* name, Arguments... arguments) const {
    char buffer[kNameSize] = {};
    const Status status = call<Status(Arguments..., char*, unsigned)>(name, arguments..., buffer, kNameSize);
    buffer[kNameSize - 1] = '\0';
    return status == kSuccess ? buffer : "";
  }

 private:
  void* handle_;
  bool initialised_ = false;
};

constexpr double kMibPerGib = 1024;

DriverProfile convert(const ProfileInfoNamed& info) {
  DriverProfile profile;
  profile.vendor_id = static_cast<int>(info.id);
  profile.name = std::string(info.name, strnlen(info.name, sizeof info.name));
  // The driver prints "MIG 1g.5gb", we and everybody else the rest.
  if (profile.name.starts_with("MIG ")) profile.name.erase(0, 4);
  profile.sm_count = static_cast<int>(info.multiprocessor_count);
  profile.memory_gib = static_cast<double>(info.memory_mib) / kMibPerGib;
  profile.count_max = static_cast<int>(info.instance_count);
  return profile;
}

// Profile number `number` of the GPU. Drivers before R510 know only the version without a name.
std::optional<DriverProfile> read_profile(const Library& library, DeviceHandle device, unsigned number) {
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
  named = {};
  named.id = plain.id;
  named.multiprocessor_count = plain.multiprocessor_count;
  named.instance_count = plain.instance_count;
  named.memory_mib = plain.memory_mib;
  return convert(named);
}

void read_placements(const Library& library, DeviceHandle device, DriverProfile& profile) {
  using Signature = Status(DeviceHandle, unsigned, Placement*, unsigned*);
  Placement placements[kPlacementsMax];
  unsigned count = kPlacementsMax;
  const auto id = static_cast<unsigned>(profile.vendor_id);
  if (library.call<Signature>("nvmlDeviceGetGpuInstancePossiblePlacements_v2", device, id, placements, &count) !=
      kSuccess) {
    return;
  }
  for (unsigned i = 0; i < std::min(count, kPlacementsMax); ++i) {
    profile.starts.push_back(static_cast<int>(placements[i].start));
    profile.units = static_cast<int>(placements[i].size);
  }
  std::ranges::sort(profile.starts);
}

// Appends the slices of one profile. Says no when the driver does not tell.
Status read_slices(const Library& library, DeviceHandle device, int vendor_id, std::vector<DriverSlice>& slices) {
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
    slices.push_back({static_cast<int>(info.profile_id), static_cast<int>(info.placement.start),
                      static_cast<int>(info.placement.size)});
  }
  return kSuccess;
}

void read_mig(const Library& library, DeviceHandle device, DriverGpu& gpu) {
  unsigned current = 0;
  unsigned pending = 0;
  if (library.call<Status(DeviceHandle, unsigned*, unsigned*)>("nvmlDeviceGetMigMode", device, &current, &pending) !=
      kSuccess) {
    return;  // A board without MIG.
  }
  gpu.mig_capable = true;
  gpu.mig_enabled = current == 1;
  gpu.mig_pending = pending == 1;
  for (unsigned number = 0; number < kProfileNumbers; ++number) {
    auto profile = read_profile(library, device, number);
    if (!profile) continue;
    read_placements(library, device, *profile);
    gpu.profiles.push_back(std::move(*profile));
  }
  if (!gpu.mig_enabled) return;
  for (const auto& profile : gpu.profiles) {
    const Status status = read_slices(library, device, profile.vendor_id, gpu.slices);
    if (status != kSuccess) gpu.problem = "cannot list its slices: " + library.describe(status);
  }
  std::ranges::sort(gpu.slices, {}, &DriverSlice::start);
}

DriverGpu read_gpu(const Library& library, unsigned index) {
  DriverGpu gpu;
  gpu.index = static_cast<int>(index);
  DeviceHandle device = nullptr;
  const Status status = library.call<Status(unsigned, DeviceHandle*)>("nvmlDeviceGetHandleByIndex_v2", index, &device);
  if (status != kSuccess) {
    gpu.problem = library.describe(status);
    return gpu;
  }
  gpu.name = library.text("nvmlDeviceGetName", device);
  gpu.uuid = library.text("nvmlDeviceGetUUID", device);
  PciInfo pci{};
  if (library.call<Status(DeviceHandle, PciInfo*)>("nvmlDeviceGetPciInfo_v3", device, &pci) == kSuccess) {
    gpu.pci_device_id = static_cast<std::uint16_t>(pci.pci_device_id >> 16U);
    gpu.pci_bus_id = std::string(pci.bus_id, strnlen(pci.bus_id, sizeof pci.bus_id));
  }
  Memory memory{};
  if (library.call<Status(DeviceHandle, Memory*)>("nvmlDeviceGetMemoryInfo", device, &memory) == kSuccess) {
    gpu.memory_gib = static_cast<double>(memory.total) / (kMibPerGib * kMibPerGib * kMibPerGib);
  }
  read_mig(library, device, gpu);
  return gpu;
}

// Our profile for a driver's id. Ids are the vendor's own numbers and do not drift as names do.
std::optional<std::size_t> profile_with_id(const Geometry& geometry, int vendor_id) {
  for (std::size_t i = 0; i < geometry.profiles.size(); ++i) {
    if (geometry.profiles[i].vendor_id == vendor_id) return i;
  }
  return std::nullopt;
}

void compare_profile(const MigProfile& ours, const DriverProfile& theirs, std::vector<std::string>& differences) {
  const auto differs = [&](std::string text) { differences.push_back(std::move(text)); };
  if (!theirs.name.empty() && theirs.name != ours.name) {
    differs(fmt::format("the driver calls {} {}", ours.name, theirs.name));
  }
  if (theirs.sm_count > 0 && (ours.sm_count.value != theirs.sm_count)) {
    differs(
        fmt::format("{} has {} multiprocessors, the table says {}", ours.name, theirs.sm_count,
                    ours.sm_count.evidence == Evidence::unknown ? "unknown" : fmt::format("{}", ours.sm_count.value)));
  }
  if (!theirs.starts.empty() && (theirs.starts != ours.starts || theirs.units != ours.units)) {
    differs(fmt::format("{} starts at {} and covers {}; the table says {} and {}", ours.name,
                        fmt::join(theirs.starts, ","), theirs.units, fmt::join(ours.starts, ","), ours.units));
  }
  if (theirs.count_max > 0 && theirs.count_max != ours.count_max) {
    differs(fmt::format("{} may be used {} times, the table says {}", ours.name, theirs.count_max, ours.count_max));
  }
}

}  // namespace

DriverReport probe_nvml() {
  DriverReport report;
  Library library;
  report.library_found = library.found();
  if (!library.found()) {
    report.problem = "libnvidia-ml.so.1 was not found: no NVIDIA driver is installed";
    return report;
  }
  if (const Status status = library.initialise(); status != kSuccess) {
    report.problem = "the NVIDIA driver does not answer: " + library.describe(status);
    return report;
  }
  report.driver_version = library.text("nvmlSystemGetDriverVersion");
  unsigned count = 0;
  if (const Status status = library.call<Status(unsigned*)>("nvmlDeviceGetCount_v2", &count); status != kSuccess) {
    report.problem = "the NVIDIA driver does not count its GPUs: " + library.describe(status);
  }
  for (unsigned i = 0; i < std::min(count, kGpusMax); ++i) report.gpus.push_back(read_gpu(library, i));
  return report;
}

RecognisedLayout recognise_layout(const Geometry& geometry, const DriverGpu& gpu) {
  RecognisedLayout result;
  for (const auto& slice : gpu.slices) {
    const auto profile = profile_with_id(geometry, slice.vendor_id);
    const Slice ours{static_cast<std::uint16_t>(profile.value_or(0)), static_cast<std::uint16_t>(slice.start)};
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
      differences.push_back(fmt::format("the driver offers {} (id {}), which the table does not know",
                                        theirs.name.empty() ? "a profile" : theirs.name, theirs.vendor_id));
    }
  }
  return differences;
}

}  // namespace tangram::adapters

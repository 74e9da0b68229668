// A stand-in for libnvidia-ml.so.1, for tests only and never installed: a machine with two GPUs.
//
// GPU 0 is an A100 80GB in MIG mode, cut as 1g@0 + 1g@1 + 3g@4, whose driver says 7g.79gb where the tables say
// 7g.80gb. GPU 1 is an H100 80GB with MIG mode off until the next reset. $FAKE_NVML_INIT is the status of nvmlInit_v2,
// and $FAKE_NVML_INSTANCES that of listing slices, so that refusals can be tried. With $FAKE_NVML_PCIE set, GPU 1 is
// the PCIe board.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "adapters/nvml/abi.h"

namespace {

using namespace tangram::adapters::nvml_abi;

struct FakeProfile {
  unsigned number;  // By which it is asked for.
  unsigned id;
  const char* name;
  unsigned slices;
  unsigned count;
  unsigned multiprocessors[2];
  unsigned long long memory_mib;
  std::vector<unsigned> starts;
  unsigned units;
};

const std::vector<FakeProfile>& profiles() {
  static const std::vector<FakeProfile> list{
      {0, 19, "MIG 1g.10gb", 1, 7, {14, 16}, 9728, {0, 1, 2, 3, 4, 5, 6}, 1},
      {7, 20, "MIG 1g.10gb+me", 1, 1, {14, 16}, 9728, {0, 1, 2, 3, 4, 5, 6}, 1},
      {9, 15, "MIG 1g.20gb", 1, 4, {14, 26}, 19968, {0, 2, 4, 6}, 2},
      {1, 14, "MIG 2g.20gb", 2, 3, {28, 32}, 19968, {0, 2, 4}, 2},
      {2, 9, "MIG 3g.40gb", 3, 2, {42, 60}, 40192, {0, 4}, 4},
      {3, 5, "MIG 4g.40gb", 4, 1, {56, 64}, 40192, {0}, 4},
      {4, 0, "MIG 7g.79gb", 7, 1, {98, 132}, 80384, {0}, 8},
  };
  return list;
}

struct FakeSlice {
  unsigned id;
  unsigned profile_id;
  Placement placement;
};
FakeSlice slices[] = {{1, 9, {4, 4}}, {7, 19, {0, 1}}, {8, 19, {1, 1}}};

int devices[2];  // Only their addresses matter.

Status status_from(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? kSuccess : std::atoi(value);
}

unsigned second_device_id() { return std::getenv("FAKE_NVML_PCIE") == nullptr ? 0x233010DEU : 0x233110DEU; }

int index_of(DeviceHandle device) { return static_cast<int>(reinterpret_cast<int*>(device) - devices); }

const FakeProfile* find_number(unsigned number) {
  const auto found = std::ranges::find(profiles(), number, &FakeProfile::number);
  return found == profiles().end() ? nullptr : &*found;
}

Status put(const char* text, char* buffer, unsigned size) {
  std::snprintf(buffer, size, "%s", text);
  return kSuccess;
}

}  // namespace

extern "C" {

Status nvmlInit_v2() { return status_from("FAKE_NVML_INIT"); }
Status nvmlShutdown() { return kSuccess; }
const char* nvmlErrorString(Status status) {
  return status == kDriverNotLoaded ? "Driver Not Loaded"
         : status == kNoPermission  ? "Insufficient Permissions"
                                    : "Error";
}
Status nvmlSystemGetDriverVersion(char* buffer, unsigned size) { return put("570.86.15", buffer, size); }
Status nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return kSuccess;
}
Status nvmlDeviceGetHandleByIndex_v2(unsigned index, DeviceHandle* device) {
  if (index >= 2) return kInvalidArgument;
  *device = reinterpret_cast<DeviceHandle>(&devices[index]);
  return kSuccess;
}
Status nvmlDeviceGetName(DeviceHandle device, char* buffer, unsigned size) {
  return put(index_of(device) == 0 ? "NVIDIA A100-SXM4-80GB" : "NVIDIA H100 80GB HBM3", buffer, size);
}
Status nvmlDeviceGetUUID(DeviceHandle device, char* buffer, unsigned size) {
  return put(
      index_of(device) == 0 ? "GPU-00000000-0000-0000-0000-0000000000a0" : "GPU-00000000-0000-0000-0000-000000000100",
      buffer, size);
}
Status nvmlDeviceGetPciInfo_v3(DeviceHandle device, PciInfo* info) {
  *info = {};
  info->pci_device_id = index_of(device) == 0 ? 0x20B210DEU : second_device_id();
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", index_of(device) + 1);
  return kSuccess;
}
Status nvmlDeviceGetMemoryInfo(DeviceHandle, Memory* memory) {
  *memory = {80ULL << 30U, 80ULL << 30U, 0};
  return kSuccess;
}
Status nvmlDeviceGetMigMode(DeviceHandle device, unsigned* current, unsigned* pending) {
  *current = index_of(device) == 0 ? 1 : 0;
  *pending = 1;
  return kSuccess;
}
Status nvmlDeviceGetGpuInstanceProfileInfoV(DeviceHandle device, unsigned number, ProfileInfoNamed* info) {
  if (info->version != kProfileInfoNamedVersion) return kInvalidArgument;
  const FakeProfile* profile = find_number(number);
  if (profile == nullptr) return kNotSupported;
  info->id = profile->id;
  info->slice_count = profile->slices;
  info->instance_count = profile->count;
  info->multiprocessor_count = profile->multiprocessors[index_of(device)];
  info->memory_mib = profile->memory_mib;
  // The H100's driver of this machine knows its name as the tables do.
  const bool drifted = profile->id == 0 && index_of(device) == 1;
  std::snprintf(info->name, sizeof info->name, "%s", drifted ? "MIG 7g.80gb" : profile->name);
  return kSuccess;
}
Status nvmlDeviceGetGpuInstancePossiblePlacements_v2(DeviceHandle, unsigned profile_id, Placement* placements,
                                                     unsigned* count) {
  const auto profile = std::ranges::find(profiles(), profile_id, &FakeProfile::id);
  if (profile == profiles().end() || *count < profile->starts.size()) return kInvalidArgument;
  *count = static_cast<unsigned>(profile->starts.size());
  for (std::size_t i = 0; i < profile->starts.size(); ++i) placements[i] = {profile->starts[i], profile->units};
  return kSuccess;
}
Status nvmlDeviceGetGpuInstances(DeviceHandle, unsigned profile_id, GpuInstanceHandle* handles, unsigned* count) {
  if (const Status status = status_from("FAKE_NVML_INSTANCES")) return status;
  *count = 0;
  for (auto& slice : slices) {
    if (slice.profile_id == profile_id) handles[(*count)++] = reinterpret_cast<GpuInstanceHandle>(&slice);
  }
  return kSuccess;
}
Status nvmlGpuInstanceGetInfo(GpuInstanceHandle handle, InstanceInfo* info) {
  const auto* slice = reinterpret_cast<const FakeSlice*>(handle);
  *info = {reinterpret_cast<DeviceHandle>(&devices[0]), slice->id, slice->profile_id, slice->placement};
  return kSuccess;
}

}  // extern "C"

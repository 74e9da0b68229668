// A stand-in for libnvidia-ml.so.1, for tests only and never installed.
//
// Its GPUs live in the file that $FAKE_NVML_STATE names, so that several processes see the same, or without one in
// memory. At first there are two: GPU 0 is an A100 80GB in MIG mode, cut as 1g@0 + 1g@1 + 3g@4, whose driver says
// 7g.79gb where the tables say 7g.80gb; GPU 1 is an H100 80GB with MIG mode off until the next reset.
//
// It is strict: calls before nvmlInit, structures of another version, handles that it did not give out and places that
// the hardware does not have are refused. Refusals can be asked for:
//   $FAKE_NVML_INIT       the status of nvmlInit_v2
//   $FAKE_NVML_INSTANCES  the status of listing slices
//   $FAKE_NVML_WRITES     the status of every write, e.g. 4 for "no permission"
//   $FAKE_NVML_FAIL       "N:STATUS", the N-th write of this process fails, or with -N every one from there on; also
//                         fake_nvml_fail_write()
//   $FAKE_NVML_SHY        profiles are told only while MIG mode is on
//   $FAKE_NVML_DELAY_MS   how long each write takes
// With $FAKE_NVML_PCIE set, GPU 1 is the PCIe board.

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <sstream>

#include "machine.h"

namespace {

using namespace tangram::adapters::nvml_abi;
using fake_nvml::Gpu;
using fake_nvml::Machine;
using fake_nvml::Part;
using fake_nvml::PartProfile;
using fake_nvml::Slice;
using tangram::MigProfile;

constexpr const char* kFirstMachine =
    "made 100\n"
    "gpu a100-80gb GPU-00000000-0000-0000-0000-0000000000a0 1 1 0 1 548540638\n"
    "slice 0 1 9 4\npart 0 1 0 2 0 MIG-00000001-0000-5000-8000-0000000000a0\n"
    "slice 0 7 19 0\npart 0 7 0 0 0 MIG-00000007-0000-5000-8000-0000000000a0\n"
    "slice 0 8 19 1\npart 0 8 0 0 0 MIG-00000008-0000-5000-8000-0000000000a0\n"
    "gpu h100-80gb GPU-00000000-0000-0000-0000-000000000100 0 1 1 0 590352606\n";

constexpr unsigned kVendor = 0x10DE;

Machine& memory() {
  static Machine machine = Machine::parse(kFirstMachine);
  return machine;
}

int initialised = 0;
int writes_until_failure = 0;  // 0: none fails. Below: all from that one on.
Status failure = kSuccess;

Status status_from(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? kSuccess : std::atoi(value);
}

// The machine for the time of one call; with a file, alone among all processes.
class Access {
 public:
  Access() {
    const char* path = std::getenv("FAKE_NVML_STATE");
    if (path == nullptr) return;
    file_ = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    flock(file_, LOCK_EX);
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    before_ = text.str();
    memory() = Machine::parse(before_.empty() ? kFirstMachine : before_);
  }
  ~Access() {
    if (file_ < 0) return;
    const std::string text = memory().text();
    const bool changed = text != before_;
    if (changed && (ftruncate(file_, 0) != 0 || pwrite(file_, text.data(), text.size(), 0) < 0)) std::abort();
    close(file_);
  }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

  Machine* operator->() const { return &memory(); }
  Machine& operator*() const { return memory(); }

 private:
  int file_ = -1;
  std::string before_;
};

// What a handle stands for. A handle that is not among those given out is nobody's.
struct Handle {
  int kind = 0;  // 0: a GPU, 1: a slice, 2: a part, 3: a part as a MIG device.
  std::size_t gpu = 0;
  unsigned slice = 0;
  unsigned part = 0;

  bool operator==(const Handle&) const = default;
};

std::deque<Handle>& handles() {
  static std::deque<Handle> list;
  return list;
}

template <typename Pointer>
Pointer give(const Handle& handle) {
  auto found = std::ranges::find(handles(), handle);
  if (found == handles().end()) found = handles().insert(handles().end(), handle);
  return reinterpret_cast<Pointer>(&*found);
}

template <typename Pointer>
const Handle* look_up(Pointer pointer, int kind) {
  for (const auto& handle : handles()) {
    if (static_cast<const void*>(&handle) == static_cast<const void*>(pointer) && handle.kind == kind) return &handle;
  }
  return nullptr;
}

Gpu* gpu_of(Machine& machine, DeviceHandle device) {
  const Handle* handle = look_up(device, 0);
  return handle == nullptr || handle->gpu >= machine.gpus.size() ? nullptr : &machine.gpus[handle->gpu];
}

Gpu* gpu_of(Machine& machine, const Handle* handle) {
  return handle == nullptr || handle->gpu >= machine.gpus.size() ? nullptr : &machine.gpus[handle->gpu];
}

Slice* slice_of(Machine& machine, const Handle* handle) {
  Gpu* gpu = gpu_of(machine, handle);
  return gpu == nullptr ? nullptr : gpu->slice(handle->slice);
}

const Part* part_of(const Slice* slice, const Handle* handle) {
  if (slice == nullptr) return nullptr;
  const auto found = std::ranges::find(slice->parts, handle->part, &Part::id);
  return found == slice->parts.end() ? nullptr : &*found;
}

// Before each write: whether it fails for a reason that a test gave.
Status refusal_asked_for() {
  if (const char* delay = std::getenv("FAKE_NVML_DELAY_MS")) usleep(static_cast<unsigned>(std::atoi(delay)) * 1000);
  static const bool from_environment = [] {
    const char* value = std::getenv("FAKE_NVML_FAIL");
    return value != nullptr && std::sscanf(value, "%d:%d", &writes_until_failure, &failure) == 2;
  }();
  static_cast<void>(from_environment);
  if (const Status status = status_from("FAKE_NVML_WRITES")) return status;
  if (writes_until_failure == -1) return failure;
  if (writes_until_failure < 0) ++writes_until_failure;
  return writes_until_failure > 0 && --writes_until_failure == 0 ? failure : kSuccess;
}

const MigProfile* find_number(const Gpu& gpu, unsigned number) {
  for (const auto& profile : gpu.geometry().profiles) {
    if (fake_nvml::number_of(profile) == number) return &profile;
  }
  return nullptr;
}

Status put(const std::string& text, char* buffer, unsigned size) {
  if (buffer == nullptr) return kInvalidArgument;
  if (size < text.size() + 1) return kInsufficientSize;
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return kSuccess;
}

bool is_pcie(std::size_t index) { return index == 1 && std::getenv("FAKE_NVML_PCIE") != nullptr; }

std::string driver_name(const Gpu& gpu, const MigProfile& profile) {
  return "MIG " + (gpu.drifts && profile.name == "7g.80gb" ? "7g.79gb" : profile.name);
}

}  // namespace

extern "C" {

// For tests in the same process: the whole machine in and out, and the next write that fails.
void fake_nvml_load(const char* text) { memory() = Machine::parse(text); }
const char* fake_nvml_save() {
  static std::string text;
  text = memory().text();
  return text.c_str();
}
void fake_nvml_fail_write(int number, Status status) {
  writes_until_failure = number;
  failure = status;
}

Status nvmlInit_v2() {
  const Status status = status_from("FAKE_NVML_INIT");
  if (status == kSuccess) ++initialised;
  return status;
}
Status nvmlShutdown() {
  if (initialised == 0) return kUninitialised;
  --initialised;
  return kSuccess;
}
const char* nvmlErrorString(Status status) {
  switch (status) {
    case kSuccess: return "Success";
    case kUninitialised: return "Uninitialized";
    case kInvalidArgument: return "Invalid Argument";
    case kNotSupported: return "Not Supported";
    case kNoPermission: return "Insufficient Permissions";
    case kNotFound: return "Not Found";
    case kDriverNotLoaded: return "Driver Not Loaded";
    case kResetRequired: return "GPU requires reset";
    case kInUse: return "In use by another client";
    case kInsufficientResources: return "Insufficient Resources";
    case kVersionMismatch: return "API call argument version mismatch";
    default: return "Unknown Error";
  }
}
Status nvmlSystemGetDriverVersion(char* buffer, unsigned size) { return put("570.86.15", buffer, size); }
Status nvmlDeviceGetCount_v2(unsigned* count) {
  if (initialised == 0) return kUninitialised;
  *count = static_cast<unsigned>(Access()->gpus.size());
  return kSuccess;
}
Status nvmlDeviceGetHandleByIndex_v2(unsigned index, DeviceHandle* device) {
  if (initialised == 0) return kUninitialised;
  if (index >= Access()->gpus.size()) return kInvalidArgument;
  *device = give<DeviceHandle>({0, index, 0, 0});
  return kSuccess;
}
Status nvmlDeviceGetHandleByUUID(const char* uuid, DeviceHandle* device) {
  if (initialised == 0) return kUninitialised;
  const Access machine;
  for (std::size_t i = 0; i < machine->gpus.size(); ++i) {
    if (machine->gpus[i].uuid != uuid) continue;
    *device = give<DeviceHandle>({0, i, 0, 0});
    return kSuccess;
  }
  return kNotFound;
}
Status nvmlDeviceGetName(DeviceHandle device, char* buffer, unsigned size) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr) return kInvalidArgument;
  if (gpu->type == "a100-80gb") return put("NVIDIA A100-SXM4-80GB", buffer, size);
  return put(gpu->type == "h100-80gb" ? "NVIDIA H100 80GB HBM3" : gpu->geometry().title, buffer, size);
}
Status nvmlDeviceGetUUID(DeviceHandle device, char* buffer, unsigned size) {
  const Access machine;
  if (const Gpu* gpu = gpu_of(*machine, device)) return put(gpu->uuid, buffer, size);
  const Handle* handle = look_up(device, 3);
  const Part* part = part_of(slice_of(*machine, handle), handle);
  return part == nullptr ? kInvalidArgument : put(part->uuid, buffer, size);
}
Status nvmlDeviceGetPciInfo_v3(DeviceHandle device, PciInfo* info) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr) return kInvalidArgument;
  const std::size_t index = look_up(device, 0)->gpu;
  *info = {};
  const unsigned first = gpu->geometry().pci_ids.front();
  info->pci_device_id = is_pcie(index) ? 0x233110DEU : gpu->pci_id != 0 ? gpu->pci_id : first << 16U | kVendor;
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", static_cast<unsigned>(index + 1));
  return kSuccess;
}
Status nvmlDeviceGetMemoryInfo(DeviceHandle, Memory* memory_info) {
  *memory_info = {80ULL << 30U, 80ULL << 30U, 0};
  return kSuccess;
}
Status nvmlDeviceGetMigMode(DeviceHandle device, unsigned* current, unsigned* pending) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr || current == nullptr || pending == nullptr) return kInvalidArgument;
  *current = gpu->mode ? 1 : 0;
  *pending = gpu->pending ? 1 : 0;
  return kSuccess;
}
Status nvmlDeviceSetMigMode(DeviceHandle device, unsigned mode, Status* activation) {
  const Access machine;
  Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr || mode > 1 || activation == nullptr) return kInvalidArgument;
  if (const Status asked = refusal_asked_for()) return asked;
  return machine->set_mode(*gpu, mode == 1, *activation);
}
Status nvmlDeviceGetGpuInstanceProfileInfoV(DeviceHandle device, unsigned number, ProfileInfoNamed* info) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr || info == nullptr) return kInvalidArgument;
  if (info->version != kProfileInfoNamedVersion) return kVersionMismatch;
  const MigProfile* profile = find_number(*gpu, number);
  if (profile == nullptr || (!gpu->mode && std::getenv("FAKE_NVML_SHY") != nullptr)) return kNotSupported;
  info->id = static_cast<unsigned>(profile->vendor_id);
  info->slice_count = static_cast<unsigned>(profile->compute_slices);
  info->instance_count = static_cast<unsigned>(profile->count_max);
  info->multiprocessor_count = static_cast<unsigned>(profile->sm_count.value);
  info->memory_mib = static_cast<unsigned long long>(profile->memory_gib.value * 1024);
  std::snprintf(info->name, sizeof info->name, "%s", driver_name(*gpu, *profile).c_str());
  return kSuccess;
}
Status nvmlDeviceGetGpuInstancePossiblePlacements_v2(DeviceHandle device, unsigned profile_id, Placement* placements,
                                                     unsigned* count) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr || count == nullptr) return kInvalidArgument;
  if (!gpu->mode) return kNotSupported;
  const MigProfile* profile = gpu->profile(profile_id);
  if (profile == nullptr || *count < profile->starts.size()) return kInvalidArgument;
  *count = static_cast<unsigned>(profile->starts.size());
  for (std::size_t i = 0; i < profile->starts.size(); ++i) {
    placements[i] = {static_cast<unsigned>(profile->starts[i]), static_cast<unsigned>(profile->units)};
  }
  return kSuccess;
}
Status nvmlDeviceGetGpuInstances(DeviceHandle device, unsigned profile_id, GpuInstanceHandle* list, unsigned* count) {
  if (const Status status = status_from("FAKE_NVML_INSTANCES")) return status;
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr || gpu->profile(profile_id) == nullptr) return kInvalidArgument;
  if (!gpu->mode) return kNotSupported;
  *count = 0;
  for (const auto& slice : gpu->slices) {
    if (slice.profile_id != profile_id) continue;
    list[(*count)++] = give<GpuInstanceHandle>({1, look_up(device, 0)->gpu, slice.id, 0});
  }
  return kSuccess;
}
Status nvmlGpuInstanceGetInfo(GpuInstanceHandle handle, InstanceInfo* info) {
  const Access machine;
  const Handle* known = look_up(handle, 1);
  const Slice* slice = slice_of(*machine, known);
  if (slice == nullptr) return kInvalidArgument;
  const auto units = static_cast<unsigned>(gpu_of(*machine, known)->profile(slice->profile_id)->units);
  *info = {give<DeviceHandle>({0, known->gpu, 0, 0}), slice->id, slice->profile_id, {slice->start, units}};
  return kSuccess;
}
Status nvmlDeviceCreateGpuInstanceWithPlacement(DeviceHandle device, unsigned profile_id, const Placement* place,
                                                GpuInstanceHandle* made) {
  const Access machine;
  Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr || place == nullptr || made == nullptr) return kInvalidArgument;
  if (const Status asked = refusal_asked_for()) return asked;
  unsigned id = 0;
  const Status status = machine->create_slice(*gpu, profile_id, *place, id);
  if (status == kSuccess) *made = give<GpuInstanceHandle>({1, look_up(device, 0)->gpu, id, 0});
  return status;
}
Status nvmlGpuInstanceDestroy(GpuInstanceHandle handle) {
  const Access machine;
  const Handle* known = look_up(handle, 1);
  Gpu* gpu = gpu_of(*machine, known);
  if (gpu == nullptr) return kInvalidArgument;
  if (const Status asked = refusal_asked_for()) return asked;
  return machine->destroy_slice(*gpu, known->slice);
}
Status nvmlGpuInstanceGetComputeInstanceProfileInfo(GpuInstanceHandle handle, unsigned number, unsigned engines,
                                                    ComputeProfileInfo* info) {
  const Access machine;
  const Handle* known = look_up(handle, 1);
  const Slice* slice = slice_of(*machine, known);
  if (slice == nullptr || engines != kSharedEngines) return kInvalidArgument;
  const Gpu& gpu = *gpu_of(*machine, known);
  PartProfile found;
  if (!fake_nvml::part_profile(gpu, *gpu.profile(slice->profile_id), number, found)) return kNotSupported;
  *info = {};
  info->id = found.id;
  info->slice_count = found.slices;
  info->instance_count = found.count;
  info->multiprocessor_count = found.multiprocessors;
  return kSuccess;
}
Status nvmlGpuInstanceGetComputeInstances(GpuInstanceHandle handle, unsigned profile_id, ComputeInstanceHandle* list,
                                          unsigned* count) {
  const Access machine;
  const Handle* known = look_up(handle, 1);
  const Slice* slice = slice_of(*machine, known);
  if (slice == nullptr) return kInvalidArgument;
  *count = 0;
  for (const auto& part : slice->parts) {
    if (part.number == profile_id) {
      list[(*count)++] = give<ComputeInstanceHandle>({2, known->gpu, known->slice, part.id});
    }
  }
  return kSuccess;
}
Status nvmlComputeInstanceGetInfo_v2(ComputeInstanceHandle handle, ComputeInstanceInfo* info) {
  const Access machine;
  const Handle* known = look_up(handle, 2);
  const Slice* slice = slice_of(*machine, known);
  const Part* part = part_of(slice, known);
  if (part == nullptr) return kInvalidArgument;
  const Gpu& gpu = *gpu_of(*machine, known);
  PartProfile profile;
  fake_nvml::part_profile(gpu, *gpu.profile(slice->profile_id), part->number, profile);
  *info = {give<DeviceHandle>({0, known->gpu, 0, 0}),
           give<GpuInstanceHandle>({1, known->gpu, known->slice, 0}),
           part->id,
           part->number,
           {part->start, profile.slices}};
  return kSuccess;
}
Status nvmlGpuInstanceCreateComputeInstanceWithPlacement(GpuInstanceHandle handle, unsigned profile_id,
                                                         const Placement* place, ComputeInstanceHandle* made) {
  const Access machine;
  const Handle* known = look_up(handle, 1);
  Gpu* gpu = gpu_of(*machine, known);
  if (gpu == nullptr || place == nullptr || made == nullptr) return kInvalidArgument;
  if (const Status asked = refusal_asked_for()) return asked;
  unsigned id = 0;
  const Status status = machine->create_part(*gpu, known->slice, profile_id, *place, id);
  if (status == kSuccess) *made = give<ComputeInstanceHandle>({2, known->gpu, known->slice, id});
  return status;
}
Status nvmlComputeInstanceDestroy(ComputeInstanceHandle handle) {
  const Access machine;
  const Handle* known = look_up(handle, 2);
  Gpu* gpu = gpu_of(*machine, known);
  if (gpu == nullptr) return kInvalidArgument;
  if (const Status asked = refusal_asked_for()) return asked;
  return machine->destroy_part(*gpu, known->slice, known->part);
}
Status nvmlDeviceGetMaxMigDeviceCount(DeviceHandle device, unsigned* count) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr) return kInvalidArgument;
  *count = static_cast<unsigned>(gpu->geometry().compute_slices);
  return kSuccess;
}
// Numbers that no device has answer "not found".
Status nvmlDeviceGetMigDeviceHandleByIndex(DeviceHandle device, unsigned index, DeviceHandle* found) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr) return kInvalidArgument;
  unsigned number = 0;
  for (const auto& slice : gpu->slices) {
    for (const auto& part : slice.parts) {
      if (number++ != index) continue;
      *found = give<DeviceHandle>({3, look_up(device, 0)->gpu, slice.id, part.id});
      return kSuccess;
    }
  }
  return kNotFound;
}
Status nvmlDeviceGetGpuInstanceId(DeviceHandle device, unsigned* id) {
  const Handle* known = look_up(device, 3);
  if (known == nullptr) return kInvalidArgument;
  *id = known->slice;
  return kSuccess;
}
Status nvmlDeviceGetComputeInstanceId(DeviceHandle device, unsigned* id) {
  const Handle* known = look_up(device, 3);
  if (known == nullptr) return kInvalidArgument;
  *id = known->part;
  return kSuccess;
}
Status nvmlDeviceGetComputeRunningProcesses_v3(DeviceHandle device, unsigned* count, ProcessInfo* infos) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr || count == nullptr) return kInvalidArgument;
  unsigned number = 0;
  for (const auto& process : gpu->processes) {
    if (kill(process.pid, 0) != 0) continue;
    if (number == *count) return kInsufficientSize;
    infos[number++] = {static_cast<unsigned>(process.pid), 1ULL << 20U, process.slice_id, 0};
  }
  *count = number;
  return kSuccess;
}

}  // extern "C"

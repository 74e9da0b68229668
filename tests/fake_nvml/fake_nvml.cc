// A stand-in for libnvidia-ml.so.1, for tests only and never installed.
//
// It is written from NVIDIA's documentation, with declarations (nvml_api.h) and boards (boards.h) of its own. It shares
// no line with the code that it tests.
//
// Its GPUs live in the file that $FAKE_NVML_STATE names, so that several processes see the same, or without one in
// memory. At first there are two: GPU 0 is an A100 80GB in MIG mode, cut as 1g@0 + 1g@1 + 3g@4, whose driver says
// 7g.79gb where others say 7g.80gb; GPU 1 is an H100 80GB with MIG mode off until the next reset.
//
// It is strict: calls before nvmlInit, structures of another version, handles that it did not give out and places that
// the hardware does not have are refused. Refusals can be asked for:
//   $FAKE_NVML_INIT       the status of nvmlInit_v2
//   $FAKE_NVML_INSTANCES  the status of listing slices
//   $FAKE_NVML_WRITES     the status of every write, e.g. 4 for "no permission"
//   $FAKE_NVML_FAIL       "N:STATUS", the N-th write of this process fails, or with -N every one from there on; also
//                         fake_nvml_fail_write()
//   $FAKE_NVML_SHY        profiles are told only while MIG mode is on
//   $FAKE_NVML_R470       a driver before R510, which tells of profiles without their names
//   $FAKE_NVML_DELAY_MS   how long each write takes
//   $FAKE_NVML_PROCESSES  "long": records of processes have 32 bytes, as with drivers 535.43 to 535.86;
//                         "v2": there is no version 3 of the call, as before R510
// With $FAKE_NVML_PCIE set, GPU 1 is the PCIe board.
//
// A test reports an error of a GPU by fake_nvml_xid(), and takes a GPU away and brings it back by fake_nvml_gone();
// with $FAKE_NVML_STATE from any process.

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
#include <mutex>
#include <sstream>

#include "machine.h"

namespace {

using fake_nvml::Board;
using fake_nvml::Gpu;
using fake_nvml::Machine;
using fake_nvml::Part;
using fake_nvml::PartProfile;
using fake_nvml::ProfileRow;
using fake_nvml::Slice;

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
bool stale = false;            // MIG mode was switched: the session has ended, and another has to begin.
int writes_until_failure = 0;  // 0: none fails. Below: all from that one on.
nvmlReturn_t failure = NVML_SUCCESS;

nvmlReturn_t status_from(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? NVML_SUCCESS : std::atoi(value);
}

std::recursive_mutex& only_one() {
  static std::recursive_mutex mutex;
  return mutex;
}

// The machine for the time of one call, alone among all threads; with a file, among all processes.
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
  std::lock_guard<std::recursive_mutex> alone_{only_one()};
  int file_ = -1;
  std::string before_;
};

// What a handle stands for. A handle that is not among those given out is nobody's.
struct Handle {
  int kind = 0;  // 0: a GPU, 1: a slice, 2: a part, 3: a part as a MIG device, 4: a set of events, its number in `gpu`.
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

// What one caller listens to.
struct EventSet {
  std::vector<std::size_t> gpus;
  unsigned seen = 0;  // The number of the last error that it has been told of.
  bool freed = false;
};

std::deque<EventSet>& event_sets() {
  static std::deque<EventSet> list;
  return list;
}

EventSet* event_set_of(nvmlEventSet_t handle) {
  const Handle* known = look_up(handle, 4);
  if (known == nullptr || event_sets()[known->gpu].freed) return nullptr;
  return &event_sets()[known->gpu];
}

unsigned last_xid(const Machine& machine) { return machine.xids.empty() ? 0 : machine.xids.back().number; }

Gpu* gpu_of(Machine& machine, nvmlDevice_t device) {
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
nvmlReturn_t refusal_asked_for() {
  if (const char* delay = std::getenv("FAKE_NVML_DELAY_MS")) usleep(static_cast<unsigned>(std::atoi(delay)) * 1000);
  static const bool from_environment = [] {
    const char* value = std::getenv("FAKE_NVML_FAIL");
    return value != nullptr && std::sscanf(value, "%d:%d", &writes_until_failure, &failure) == 2;
  }();
  static_cast<void>(from_environment);
  if (const nvmlReturn_t status = status_from("FAKE_NVML_WRITES")) return status;
  if (writes_until_failure == -1) return failure;
  if (writes_until_failure < 0) ++writes_until_failure;
  return writes_until_failure > 0 && --writes_until_failure == 0 ? failure : NVML_SUCCESS;
}

nvmlReturn_t put(const std::string& text, char* buffer, unsigned size) {
  if (buffer == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (size < text.size() + 1) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

bool is_pcie(std::size_t index) { return index == 1 && std::getenv("FAKE_NVML_PCIE") != nullptr; }

std::string driver_name(const Gpu& gpu, const ProfileRow& profile) {
  return "MIG " + (gpu.drifts && profile.name == "7g.80gb" ? "7g.79gb" : profile.name);
}

// Profile number `number` of the board, where the driver tells of it.
nvmlReturn_t find_profile(Machine& machine, nvmlDevice_t device, unsigned number, const void* info,
                          const ProfileRow*& found) {
  const Gpu* gpu = gpu_of(machine, device);
  if (gpu == nullptr || info == nullptr || number >= NVML_GPU_INSTANCE_PROFILE_COUNT)
    return NVML_ERROR_INVALID_ARGUMENT;
  found = gpu->board().with_number(number);
  const bool told = found != nullptr && (gpu->mode || std::getenv("FAKE_NVML_SHY") == nullptr);
  return told ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

// What both versions of the structure have. Slices of MIG have no access to each other.
template <typename Info>
void describe(const ProfileRow& row, Info& info) {
  info.id = row.id;
  info.isP2pSupported = 0;
  info.sliceCount = row.slices;
  info.instanceCount = row.instances;
  info.multiprocessorCount = row.multiprocessors;
  info.copyEngineCount = row.copy_engines;
  info.decoderCount = row.media.decoders;
  info.encoderCount = row.media.encoders;
  info.jpegCount = row.media.jpeg;
  info.ofaCount = row.media.optical_flow;
  info.memorySizeMB = static_cast<unsigned long long>(row.memory_gib * 1024);
}

}  // namespace

extern "C" {

// The boards that there are, one a line.
const char* fake_nvml_boards() {
  static const std::string text = [] {
    std::string list;
    for (const Board& board : fake_nvml::boards()) list += board.type + "\n";
    return list;
  }();
  return text.c_str();
}

// For tests in the same process: the whole machine in and out, and the next write that fails.
void fake_nvml_load(const char* text) { memory() = Machine::parse(text); }
const char* fake_nvml_save() {
  static std::string text;
  text = memory().text();
  return text.c_str();
}
void fake_nvml_xid(unsigned gpu, unsigned code, unsigned slice_id) { Access()->raise(gpu, code, slice_id); }
void fake_nvml_gone(unsigned gpu, int gone) { Access()->gpus.at(gpu).gone = gone != 0; }
void fake_nvml_fail_write(int number, nvmlReturn_t status) {
  writes_until_failure = number;
  failure = status;
}

nvmlReturn_t nvmlInit_v2() {
  const nvmlReturn_t status = status_from("FAKE_NVML_INIT");
  if (status == NVML_SUCCESS) ++initialised;
  if (status == NVML_SUCCESS && initialised == 1) stale = false;
  return status;
}
nvmlReturn_t nvmlShutdown() {
  if (initialised == 0) return NVML_ERROR_UNINITIALIZED;
  --initialised;
  return NVML_SUCCESS;
}
const char* nvmlErrorString(nvmlReturn_t status) {
  switch (status) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED: return "GPU requires reset";
    case NVML_ERROR_IN_USE: return "In use by another client";
    case NVML_ERROR_INSUFFICIENT_RESOURCES: return "Insufficient Resources";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "API call argument version mismatch";
    default: return "Unknown Error";
  }
}
nvmlReturn_t nvmlSystemGetDriverVersion(char* buffer, unsigned size) { return put("570.86.15", buffer, size); }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  if (initialised == 0 || stale) return NVML_ERROR_UNINITIALIZED;
  *count = static_cast<unsigned>(Access()->gpus.size());
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  if (initialised == 0 || stale) return NVML_ERROR_UNINITIALIZED;
  const Access machine;
  if (index >= machine->gpus.size()) return NVML_ERROR_INVALID_ARGUMENT;
  if (machine->gpus[index].gone) return NVML_ERROR_GPU_IS_LOST;
  *device = give<nvmlDevice_t>({0, index, 0, 0});
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  if (initialised == 0 || stale) return NVML_ERROR_UNINITIALIZED;
  const Access machine;
  for (std::size_t i = 0; i < machine->gpus.size(); ++i) {
    if (machine->gpus[i].uuid != uuid) continue;
    if (machine->gpus[i].gone) return NVML_ERROR_GPU_IS_LOST;
    *device = give<nvmlDevice_t>({0, i, 0, 0});
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* buffer, unsigned size) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return put(gpu->board().name, buffer, size);
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* buffer, unsigned size) {
  const Access machine;
  if (const Gpu* gpu = gpu_of(*machine, device)) return put(gpu->uuid, buffer, size);
  const Handle* handle = look_up(device, 3);
  const Part* part = part_of(slice_of(*machine, handle), handle);
  return part == nullptr ? NVML_ERROR_INVALID_ARGUMENT : put(part->uuid, buffer, size);
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* info) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const std::size_t index = look_up(device, 0)->gpu;
  *info = {};
  const auto bus = static_cast<unsigned>(index + 1);
  const unsigned usual = gpu->board().pci_device << 16U | kVendor;
  std::snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "0000:%02X:00.0", bus);
  info->bus = bus;
  info->pciDeviceId = is_pcie(index) ? 0x233110DEU : gpu->pci_id != 0 ? gpu->pci_id : usual;
  info->pciSubSystemId = 0x146310DEU;
  std::snprintf(info->busId, sizeof info->busId, "00000000:%02X:00.0", bus);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory_info) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr || memory_info == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (gpu->gone) return NVML_ERROR_GPU_IS_LOST;
  const unsigned long long total = static_cast<unsigned long long>(gpu->board().memory_mib) << 20U;
  const unsigned long long used = 512ULL << 20U;  // What the driver keeps.
  *memory_info = {total, total - used, used};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* current, unsigned* pending) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr || current == nullptr || pending == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *current = gpu->mode ? 1 : 0;
  *pending = gpu->pending ? 1 : 0;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t* activation) {
  const Access machine;
  Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr || mode > 1 || activation == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (const nvmlReturn_t asked = refusal_asked_for()) return asked;
  const bool before = gpu->mode;
  const nvmlReturn_t status = machine->set_mode(*gpu, mode == 1, *activation);
  stale = stale || gpu->mode != before;
  return status;
}
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned number,
                                                 nvmlGpuInstanceProfileInfo_t* info) {
  const Access machine;
  const ProfileRow* profile = nullptr;
  if (const nvmlReturn_t status = find_profile(*machine, device, number, info, profile); status != NVML_SUCCESS)
    return status;
  describe(*profile, *info);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned number,
                                                  nvmlGpuInstanceProfileInfo_v2_t* info) {
  if (std::getenv("FAKE_NVML_R470") != nullptr) return NVML_ERROR_FUNCTION_NOT_FOUND;
  const Access machine;
  const ProfileRow* profile = nullptr;
  if (info != nullptr && info->version != nvmlGpuInstanceProfileInfo_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (const nvmlReturn_t status = find_profile(*machine, device, number, info, profile); status != NVML_SUCCESS)
    return status;
  describe(*profile, *info);
  std::snprintf(info->name, sizeof info->name, "%s", driver_name(*gpu_of(*machine, device), *profile).c_str());
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned profile_id,
                                                           nvmlGpuInstancePlacement_t* placements, unsigned* count) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr || count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (!gpu->mode) return NVML_ERROR_NOT_SUPPORTED;
  const ProfileRow* profile = gpu->board().with_id(profile_id);
  if (profile == nullptr || *count < profile->starts.size()) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned>(profile->starts.size());
  for (std::size_t i = 0; i < profile->starts.size(); ++i) placements[i] = {profile->starts[i], profile->size};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned profile_id, nvmlGpuInstance_t* list,
                                       unsigned* count) {
  if (const nvmlReturn_t status = status_from("FAKE_NVML_INSTANCES")) return status;
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr || gpu->board().with_id(profile_id) == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (!gpu->mode) return NVML_ERROR_NOT_SUPPORTED;
  *count = 0;
  for (const auto& slice : gpu->slices) {
    if (slice.profile_id != profile_id) continue;
    list[(*count)++] = give<nvmlGpuInstance_t>({1, look_up(device, 0)->gpu, slice.id, 0});
  }
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t* info) {
  const Access machine;
  const Handle* known = look_up(handle, 1);
  const Slice* slice = slice_of(*machine, known);
  if (slice == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const unsigned size = gpu_of(*machine, known)->board().with_id(slice->profile_id)->size;
  *info = {give<nvmlDevice_t>({0, known->gpu, 0, 0}), slice->id, slice->profile_id, {slice->start, size}};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned profile_id,
                                                      const nvmlGpuInstancePlacement_t* place,
                                                      nvmlGpuInstance_t* made) {
  const Access machine;
  Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr || place == nullptr || made == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (const nvmlReturn_t asked = refusal_asked_for()) return asked;
  unsigned id = 0;
  const nvmlReturn_t status = machine->create_slice(*gpu, profile_id, *place, id);
  if (status == NVML_SUCCESS) *made = give<nvmlGpuInstance_t>({1, look_up(device, 0)->gpu, id, 0});
  return status;
}
nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t handle) {
  const Access machine;
  const Handle* known = look_up(handle, 1);
  Gpu* gpu = gpu_of(*machine, known);
  if (gpu == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (const nvmlReturn_t asked = refusal_asked_for()) return asked;
  return machine->destroy_slice(*gpu, known->slice);
}
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t handle, unsigned number, unsigned engines,
                                                          nvmlComputeInstanceProfileInfo_t* info) {
  const Access machine;
  const Handle* known = look_up(handle, 1);
  const Slice* slice = slice_of(*machine, known);
  if (slice == nullptr || engines != NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED ||
      number >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const Gpu& gpu = *gpu_of(*machine, known);
  const ProfileRow& row = *gpu.board().with_id(slice->profile_id);
  PartProfile found;
  if (!fake_nvml::part_profile(gpu, row, number, found)) return NVML_ERROR_NOT_SUPPORTED;
  // All parts of a slice share its engines.
  *info = {found.id,           found.slices,       found.count,    found.multiprocessors, row.copy_engines,
           row.media.decoders, row.media.encoders, row.media.jpeg, row.media.optical_flow};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t handle, unsigned profile_id,
                                                nvmlComputeInstance_t* list, unsigned* count) {
  const Access machine;
  const Handle* known = look_up(handle, 1);
  const Slice* slice = slice_of(*machine, known);
  if (slice == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  for (const auto& part : slice->parts) {
    if (part.number == profile_id) {
      list[(*count)++] = give<nvmlComputeInstance_t>({2, known->gpu, known->slice, part.id});
    }
  }
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t* info) {
  const Access machine;
  const Handle* known = look_up(handle, 2);
  const Slice* slice = slice_of(*machine, known);
  const Part* part = part_of(slice, known);
  if (part == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const Gpu& gpu = *gpu_of(*machine, known);
  PartProfile profile;
  fake_nvml::part_profile(gpu, *gpu.board().with_id(slice->profile_id), part->number, profile);
  *info = {give<nvmlDevice_t>({0, known->gpu, 0, 0}),
           give<nvmlGpuInstance_t>({1, known->gpu, known->slice, 0}),
           part->id,
           part->number,
           {part->start, fake_nvml::span_of(gpu, *gpu.board().with_id(slice->profile_id), profile)}};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t handle, unsigned profile_id,
                                                               const nvmlComputeInstancePlacement_t* place,
                                                               nvmlComputeInstance_t* made) {
  const Access machine;
  const Handle* known = look_up(handle, 1);
  Gpu* gpu = gpu_of(*machine, known);
  if (gpu == nullptr || place == nullptr || made == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (const nvmlReturn_t asked = refusal_asked_for()) return asked;
  unsigned id = 0;
  const nvmlReturn_t status = machine->create_part(*gpu, known->slice, profile_id, *place, id);
  if (status == NVML_SUCCESS) *made = give<nvmlComputeInstance_t>({2, known->gpu, known->slice, id});
  return status;
}
nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t handle, unsigned profile_id,
                                                                 nvmlComputeInstancePlacement_t* placements,
                                                                 unsigned* count) {
  const Access machine;
  const Handle* known = look_up(handle, 1);
  const Slice* slice = slice_of(*machine, known);
  if (slice == nullptr || count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const Gpu& gpu = *gpu_of(*machine, known);
  const ProfileRow& row = *gpu.board().with_id(slice->profile_id);
  PartProfile wanted;
  if (!fake_nvml::part_profile(gpu, row, profile_id, wanted)) return NVML_ERROR_NOT_SUPPORTED;
  const unsigned span = fake_nvml::span_of(gpu, row, wanted);
  const unsigned step = fake_nvml::step_of(gpu, span);
  unsigned number = 0;
  for (unsigned start = 0; start + span <= fake_nvml::span_of_all(gpu, row); start += step) {
    if (number == *count) return NVML_ERROR_INSUFFICIENT_SIZE;
    placements[number++] = {start, span};
  }
  *count = number;
  return NVML_SUCCESS;
}
// The driver takes the first place that is free.
nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t handle, unsigned profile_id,
                                                  nvmlComputeInstance_t* made) {
  nvmlComputeInstancePlacement_t places[64];
  unsigned count = 64;
  if (const nvmlReturn_t status =
          nvmlGpuInstanceGetComputeInstancePossiblePlacements(handle, profile_id, places, &count)) {
    return status;
  }
  const Access machine;
  const Handle* known = look_up(handle, 1);
  Gpu* gpu = gpu_of(*machine, known);
  if (gpu == nullptr || made == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (const nvmlReturn_t asked = refusal_asked_for()) return asked;
  nvmlReturn_t status = NVML_ERROR_INSUFFICIENT_RESOURCES;
  for (unsigned i = 0; i < count && status == NVML_ERROR_INSUFFICIENT_RESOURCES; ++i) {
    unsigned id = 0;
    status = machine->create_part(*gpu, known->slice, profile_id, places[i], id);
    if (status == NVML_SUCCESS) *made = give<nvmlComputeInstance_t>({2, known->gpu, known->slice, id});
  }
  return status;
}
nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t handle) {
  const Access machine;
  const Handle* known = look_up(handle, 2);
  Gpu* gpu = gpu_of(*machine, known);
  if (gpu == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (const nvmlReturn_t asked = refusal_asked_for()) return asked;
  return machine->destroy_part(*gpu, known->slice, known->part);
}
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned* count) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = gpu->board().slices;
  return NVML_SUCCESS;
}
// Numbers that no device has answer "not found".
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t* found) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned number = 0;
  for (const auto& slice : gpu->slices) {
    for (const auto& part : slice.parts) {
      if (number++ != index) continue;
      *found = give<nvmlDevice_t>({3, look_up(device, 0)->gpu, slice.id, part.id});
      return NVML_SUCCESS;
    }
  }
  return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned* id) {
  const Handle* known = look_up(device, 3);
  if (known == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *id = known->slice;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned* id) {
  const Handle* known = look_up(device, 3);
  if (known == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *id = known->part;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned* count, nvmlProcessInfo_t* infos) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  if (gpu == nullptr || count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned number = 0;
  for (const auto& process : gpu->processes) {
    if (kill(process.pid, 0) != 0) continue;
    if (number == *count) return NVML_ERROR_INSUFFICIENT_SIZE;
    infos[number++] = {static_cast<unsigned>(process.pid), 1ULL << 20U, gpu->mode ? process.slice_id : 0xFFFFFFFFU,
                       gpu->mode ? 0 : 0xFFFFFFFFU};
  }
  *count = number;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count, nvmlProcessInfo_t* infos) {
  const char* kind = std::getenv("FAKE_NVML_PROCESSES");
  if (kind != nullptr && std::strcmp(kind, "v2") == 0) return NVML_ERROR_FUNCTION_NOT_FOUND;
  const nvmlReturn_t status = nvmlDeviceGetComputeRunningProcesses_v2(device, count, infos);
  if (status != NVML_SUCCESS || kind == nullptr || std::strcmp(kind, "long") != 0) return status;
  // From the last to the first, so that none is overwritten before it was moved. The memory of confidential computing
  // follows each record.
  auto* bytes = reinterpret_cast<unsigned char*>(infos);
  for (unsigned i = *count; i-- > 0;) {
    std::memmove(bytes + i * 32, bytes + i * sizeof(nvmlProcessInfo_t), sizeof(nvmlProcessInfo_t));
    std::memset(bytes + i * 32 + sizeof(nvmlProcessInfo_t), 0, 8);
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  if (initialised == 0) return NVML_ERROR_UNINITIALIZED;
  if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const Access machine;
  event_sets().push_back({{}, last_xid(*machine)});
  *set = give<nvmlEventSet_t>({4, event_sets().size() - 1, 0, 0});
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t handle) {
  const Access machine;
  const Gpu* gpu = gpu_of(*machine, device);
  EventSet* set = event_set_of(handle);
  if (gpu == nullptr || set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (gpu->gone) return NVML_ERROR_GPU_IS_LOST;
  if (types != nvmlEventTypeXidCriticalError) return NVML_ERROR_NOT_SUPPORTED;
  set->gpus.push_back(look_up(device, 0)->gpu);
  return NVML_SUCCESS;
}
// Once a GPU of the set is lost, so is the wait.
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t handle, nvmlEventData_t* data, unsigned timeout_ms) {
  if (initialised == 0) return NVML_ERROR_UNINITIALIZED;
  constexpr unsigned kTurnMs = 20;
  for (unsigned waited = 0;; waited += kTurnMs) {
    {
      const Access machine;
      EventSet* set = event_set_of(handle);
      if (set == nullptr || data == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
      for (const auto& xid : machine->xids) {
        if (xid.number <= set->seen || std::ranges::find(set->gpus, xid.gpu) == set->gpus.end()) continue;
        set->seen = xid.number;
        *data = {give<nvmlDevice_t>({0, xid.gpu, 0, 0}), nvmlEventTypeXidCriticalError, xid.code, xid.slice_id,
                 xid.slice_id == 0xFFFFFFFFU ? xid.slice_id : 0};
        return NVML_SUCCESS;
      }
      for (const std::size_t gpu : set->gpus) {
        if (machine->gpus.at(gpu).gone) return NVML_ERROR_GPU_IS_LOST;
      }
    }
    if (waited >= timeout_ms) return NVML_ERROR_TIMEOUT;
    usleep(std::min(kTurnMs, timeout_ms - waited) * 1000);
  }
}
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t handle) {
  const Access machine;
  EventSet* set = event_set_of(handle);
  if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  set->freed = true;
  return NVML_SUCCESS;
}

}  // extern "C"

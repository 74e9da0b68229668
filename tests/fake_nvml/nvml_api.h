// NVML's interface as NVIDIA's "NVML API Reference Guide" documents it, for the stand-in driver of the tests.
//
// The names are those of the reference, so that each can be looked up there. Nothing here comes from Tangram's own
// declarations (src/adapters/nvml/abi.h), and nothing there may come from here: the tests pass only if two descriptions
// that were written apart agree.
#pragma once

using nvmlReturn_t = int;
enum : nvmlReturn_t {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_TIMEOUT = 10,
  NVML_ERROR_FUNCTION_NOT_FOUND = 13,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_RESET_REQUIRED = 16,
  NVML_ERROR_IN_USE = 19,
  NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
  NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
};

// The numbers by which GPU instance profiles are asked for. A number that no board of the driver's time has is an
// invalid argument; one that this board does not have is not supported.
enum : unsigned {
  NVML_GPU_INSTANCE_PROFILE_1_SLICE = 0x0,
  NVML_GPU_INSTANCE_PROFILE_2_SLICE = 0x1,
  NVML_GPU_INSTANCE_PROFILE_3_SLICE = 0x2,
  NVML_GPU_INSTANCE_PROFILE_4_SLICE = 0x3,
  NVML_GPU_INSTANCE_PROFILE_7_SLICE = 0x4,
  NVML_GPU_INSTANCE_PROFILE_8_SLICE = 0x5,
  NVML_GPU_INSTANCE_PROFILE_6_SLICE = 0x6,
  NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1 = 0x7,  // With the media extensions, +me.
  NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1 = 0x8,
  NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2 = 0x9,  // With twice the memory.
  NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX = 0xA,
  NVML_GPU_INSTANCE_PROFILE_2_SLICE_GFX = 0xB,
  NVML_GPU_INSTANCE_PROFILE_4_SLICE_GFX = 0xC,
  NVML_GPU_INSTANCE_PROFILE_1_SLICE_NO_ME = 0xD,
  NVML_GPU_INSTANCE_PROFILE_2_SLICE_NO_ME = 0xE,
  NVML_GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME = 0xF,
  NVML_GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME = 0x10,
  NVML_GPU_INSTANCE_PROFILE_3_SLICE_GFX = 0x11,
  NVML_GPU_INSTANCE_PROFILE_COUNT = 0x12,
};

// The same for compute instances. On the boards here the id of a compute instance profile is its number, as
// `nvidia-smi mig -lcip` prints it.
enum : unsigned {
  NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE = 0x0,
  NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE = 0x1,
  NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE = 0x2,
  NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE = 0x3,
  NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE = 0x4,
  NVML_COMPUTE_INSTANCE_PROFILE_8_SLICE = 0x5,
  NVML_COMPUTE_INSTANCE_PROFILE_6_SLICE = 0x6,
  NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1 = 0x7,  // All multiprocessors of a slice with twice the memory.
  NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE_NVL = 0x8,
  NVML_COMPUTE_INSTANCE_PROFILE_COUNT = 0x9,
};

enum : unsigned { NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED = 0 };
enum : unsigned { NVML_DEVICE_MIG_DISABLE = 0, NVML_DEVICE_MIG_ENABLE = 1 };

enum : unsigned long long {
  nvmlEventTypeSingleBitEccError = 0x1,
  nvmlEventTypeDoubleBitEccError = 0x2,
  nvmlEventTypePState = 0x4,
  nvmlEventTypeXidCriticalError = 0x8,
  nvmlEventTypeClock = 0x10,
};

extern "C" {

using nvmlDevice_t = struct nvmlDevice_st*;
using nvmlGpuInstance_t = struct nvmlGpuInstance_st*;
using nvmlComputeInstance_t = struct nvmlComputeInstance_st*;
using nvmlEventSet_t = struct nvmlEventSet_st*;

struct nvmlEventData_t {
  nvmlDevice_t device;
  unsigned long long eventType, eventData;
  unsigned gpuInstanceId, computeInstanceId;  // 0xFFFFFFFF without MIG.
};

struct nvmlPciInfo_t {
  char busIdLegacy[16];
  unsigned domain, bus, device;
  unsigned pciDeviceId;  // The device's 16 bits, then the vendor's.
  unsigned pciSubSystemId;
  char busId[32];
};

struct nvmlMemory_t {
  unsigned long long total, free, used;  // Bytes.
};

struct nvmlGpuInstancePlacement_t {
  unsigned start, size;
};

struct nvmlGpuInstanceProfileInfo_t {
  unsigned id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
  unsigned copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
  unsigned long long memorySizeMB;
};

struct nvmlGpuInstanceProfileInfo_v2_t {
  unsigned version, id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
  unsigned copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
  unsigned long long memorySizeMB;
  char name[96];
};
// Structures with a version carry their size in the lower 24 bits and the version above them.
enum : unsigned { nvmlGpuInstanceProfileInfo_v2 = sizeof(nvmlGpuInstanceProfileInfo_v2_t) | 2U << 24U };

struct nvmlGpuInstanceInfo_t {
  nvmlDevice_t device;
  unsigned id, profileId;
  nvmlGpuInstancePlacement_t placement;
};

struct nvmlComputeInstancePlacement_t {
  unsigned start, size;
};

struct nvmlComputeInstanceProfileInfo_t {
  unsigned id, sliceCount, instanceCount, multiprocessorCount;
  unsigned sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
};

struct nvmlComputeInstanceInfo_t {
  nvmlDevice_t device;
  nvmlGpuInstance_t gpuInstance;
  unsigned id, profileId;
  nvmlComputeInstancePlacement_t placement;
};

struct nvmlProcessInfo_t {
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId, computeInstanceId;  // 0xFFFFFFFF without MIG.
};

}  // extern "C"

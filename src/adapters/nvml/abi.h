// The part of NVML's binary interface that Tangram calls, declared by us so that nothing of the vendor's is needed to
// build.
//
// Names follow NVML where they must be looked up in the library, and ours elsewhere. The sizes are checked below: a
// structure of another size would be written past its end.
#pragma once

#include <cstddef>

namespace tangram::adapters::nvml_abi {

extern "C" {

struct OpaqueDevice;
struct OpaqueGpuInstance;
struct OpaqueComputeInstance;
struct OpaqueEventSet;
using DeviceHandle = OpaqueDevice*;  // Of a GPU or of a MIG device: one part of one slice.
using GpuInstanceHandle = OpaqueGpuInstance*;
using ComputeInstanceHandle = OpaqueComputeInstance*;
using EventSetHandle = OpaqueEventSet*;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;  // Device in the upper half, vendor in the lower.
  unsigned pci_subsystem_id;
  char bus_id[32];
};

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Placement {
  unsigned start;  // In memory units.
  unsigned size;
};

struct ProfileInfo {
  unsigned id;
  unsigned is_p2p_supported;
  unsigned slice_count;
  unsigned instance_count;
  unsigned multiprocessor_count;
  unsigned copy_engine_count;
  unsigned decoder_count;
  unsigned encoder_count;
  unsigned jpeg_count;
  unsigned optical_flow_count;
  unsigned long long memory_mib;
};

// The second version also tells the name. `version` says which version the caller knows.
struct ProfileInfoNamed {
  unsigned version;
  unsigned id;
  unsigned is_p2p_supported;
  unsigned slice_count;
  unsigned instance_count;
  unsigned multiprocessor_count;
  unsigned copy_engine_count;
  unsigned decoder_count;
  unsigned encoder_count;
  unsigned jpeg_count;
  unsigned optical_flow_count;
  unsigned long long memory_mib;
  char name[96];
};

struct InstanceInfo {
  DeviceHandle device;
  unsigned id;
  unsigned profile_id;
  Placement placement;
};

// What a part of a slice may have of its compute.
struct ComputeProfileInfo {
  unsigned id;
  unsigned slice_count;
  unsigned instance_count;
  unsigned multiprocessor_count;
  unsigned shared_copy_engine_count;
  unsigned shared_decoder_count;
  unsigned shared_encoder_count;
  unsigned shared_jpeg_count;
  unsigned shared_optical_flow_count;
};

struct ComputeInstanceInfo {
  DeviceHandle device;
  GpuInstanceHandle gpu_instance;
  unsigned id;
  unsigned profile_id;
  Placement placement;  // In compute slices of its slice.
};

// Of the third version of the call that lists processes.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance_id;  // kNoInstance where the GPU is not in MIG mode.
  unsigned compute_instance_id;
};

// Of the second version of the call that waits for events.
struct EventData {
  DeviceHandle device;
  unsigned long long type;
  unsigned long long data;   // Of a critical error: its XID.
  unsigned gpu_instance_id;  // kNoInstance where the GPU is not in MIG mode, or the error is that of the whole GPU.
  unsigned compute_instance_id;
};

using Status = int;

}  // extern "C"

static_assert(sizeof(PciInfo) == 68);
static_assert(sizeof(Memory) == 24);
static_assert(sizeof(ProfileInfo) == 48);
static_assert(sizeof(ProfileInfoNamed) == 152);
static_assert(offsetof(ProfileInfoNamed, memory_mib) == 48);
static_assert(sizeof(InstanceInfo) == 24);
static_assert(sizeof(ComputeProfileInfo) == 36);
static_assert(sizeof(ComputeInstanceInfo) == 32);
static_assert(sizeof(ProcessInfo) == 24);
static_assert(offsetof(ProcessInfo, gpu_instance_id) == 16);
static_assert(sizeof(EventData) == 32);
static_assert(offsetof(EventData, gpu_instance_id) == 24);

inline constexpr Status kSuccess = 0;
inline constexpr Status kUninitialised = 1;
inline constexpr Status kInvalidArgument = 2;
inline constexpr Status kNotSupported = 3;
inline constexpr Status kNoPermission = 4;
inline constexpr Status kNotFound = 6;
inline constexpr Status kInsufficientSize = 7;
inline constexpr Status kDriverNotLoaded = 9;
inline constexpr Status kTimeout = 10;
inline constexpr Status kFunctionNotFound = 13;
inline constexpr Status kGpuIsLost = 15;
inline constexpr Status kResetRequired = 16;
inline constexpr Status kInUse = 19;
inline constexpr Status kInsufficientResources = 23;
inline constexpr Status kVersionMismatch = 25;

inline constexpr unsigned kProfileNumbers = 18;  // Numbers by which profiles are asked for; their ids are others.
inline constexpr unsigned kProfileInfoNamedVersion = sizeof(ProfileInfoNamed) | (2U << 24U);
inline constexpr unsigned kComputeProfileNumbers = 9;
inline constexpr unsigned kSharedEngines = 0;  // The only way in which parts have the engines of their slice.
inline constexpr unsigned kNoInstance = 0xFFFFFFFFU;
inline constexpr unsigned long long kEventXidCritical = 0x8;
inline constexpr unsigned kNameSize = 96;
inline constexpr unsigned kPlacementsMax = 128;
inline constexpr unsigned kInstancesMax = 64;
inline constexpr unsigned kProcessesMax = 1024;
inline constexpr std::size_t kProcessInfoLong = 32;   // As some drivers write them, with one more number at the end.
inline constexpr unsigned char kUntouched = 0xA5;     // What memory is filled with to see what the library writes.
inline constexpr unsigned kProcessIdMax = 4'194'304;  // Of Linux on 64 bits.

}  // namespace tangram::adapters::nvml_abi

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
using DeviceHandle = OpaqueDevice*;
using GpuInstanceHandle = OpaqueGpuInstance*;

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

using Status = int;

}  // extern "C"

static_assert(sizeof(PciInfo) == 68);
static_assert(sizeof(Memory) == 24);
static_assert(sizeof(ProfileInfo) == 48);
static_assert(sizeof(ProfileInfoNamed) == 152);
static_assert(offsetof(ProfileInfoNamed, memory_mib) == 48);
static_assert(sizeof(InstanceInfo) == 24);

inline constexpr Status kSuccess = 0;
inline constexpr Status kInvalidArgument = 2;
inline constexpr Status kNotSupported = 3;
inline constexpr Status kNoPermission = 4;
inline constexpr Status kDriverNotLoaded = 9;

inline constexpr unsigned kProfileNumbers = 18;  // Numbers by which profiles are asked for; their ids are others.
inline constexpr unsigned kProfileInfoNamedVersion = sizeof(ProfileInfoNamed) | (2U << 24U);
inline constexpr unsigned kNameSize = 96;
inline constexpr unsigned kPlacementsMax = 128;
inline constexpr unsigned kInstancesMax = 64;

}  // namespace tangram::adapters::nvml_abi

// What the NVIDIA driver says about the GPUs of this machine.
//
// The library is found at run time (libnvidia-ml.so.1, where the dynamic linker looks), so the program runs and
// says so where there is none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/geometry.h"
#include "core/layout.h"

namespace tangram::adapters {

// A profile as the driver lists it.
struct DriverProfile {
  int vendor_id = 0;
  std::string name;  // Empty where the driver is too old to tell.
  int sm_count = 0;
  double memory_gib = 0;
  int count_max = 0;
  std::vector<int> starts;  // Empty where MIG mode is off: some drivers tell placements only when it is on.
  int units = 0;
};

// A slice that exists, by its place.
struct DriverSlice {
  int vendor_id = 0;
  int start = 0;
  int units = 0;
};

struct DriverGpu {
  int index = 0;
  std::string name;
  std::string uuid;
  std::string pci_bus_id;
  std::uint16_t pci_device_id = 0;
  double memory_gib = 0;
  bool mig_capable = false;
  bool mig_enabled = false;
  bool mig_pending = false;  // The mode after the next reset.
  std::vector<DriverProfile> profiles;
  std::vector<DriverSlice> slices;

  std::string problem;  // What the driver refused to tell, if anything.
};

struct DriverReport {
  bool library_found = false;
  std::string driver_version;
  std::vector<DriverGpu> gpus;
  std::string problem;  // Why there are no GPUs, in words; empty when all went well.
};

// Opens the library, asks, and closes it. Never fails: what cannot be had is said in the report.
DriverReport probe_nvml();

// The layout that the slices of `gpu` make in `geometry`. Slices that the table does not know are named in `unknown`.
struct RecognisedLayout {
  Layout layout;
  std::vector<std::string> unknown;
};
RecognisedLayout recognise_layout(const Geometry& geometry, const DriverGpu& gpu);

// Where the driver's list differs from our table, one sentence each: names that drifted, other placements, other counts
// of multiprocessors or slices. Unverified numbers of the table are confirmed or corrected in words.
std::vector<std::string> compare_profiles(const Geometry& geometry, const DriverGpu& gpu);

}  // namespace tangram::adapters

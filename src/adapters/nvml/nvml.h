// What the NVIDIA driver says about the GPUs of this machine.
//
// The library is found at run time (libnvidia-ml.so.1, where the dynamic linker looks), so the program runs and
// says so where there is none.
#pragma once

#include <cstdint>
#include <optional>
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
  int number = -1;  // By which the library lists it; not the id.
};

// A share of the compute of a slice. Programs run on parts: each is a MIG device with a UUID of its own. Slices that
// Tangram makes have one part with everything.
struct SlicePart {
  int number = 0;         // By which the library lists what it has.
  int start = 0;          // In compute slices of its slice.
  std::string uuid = {};  // "MIG-...", another one each time that it is made; empty where the driver does not tell.
};

// A slice that exists, by its place.
struct DriverSlice {
  int vendor_id = 0;
  int start = 0;
  int units = 0;
  int id = -1;                        // The driver's for as long as it exists.
  std::vector<SlicePart> parts = {};  // In order of their starts.
  bool whole = false;                 // It has one part, and that has everything.
};

// A process that uses a GPU.
struct DriverProcess {
  int pid = 0;
  std::optional<int> slice_start;  // Nothing: it uses no slice, or the driver does not tell which.
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
  bool slices_known = true;              // False: the driver did not list them, and `slices` says nothing.
  std::vector<DriverProcess> processes;  // Of users that we may see.

  std::string problem;    // What the driver refused to tell, if anything.
  bool reachable = true;  // False: it is listed and does not answer. Little else is known of it then.
};

struct DriverReport {
  bool library_found = false;
  std::string driver_version;
  std::vector<DriverGpu> gpus;
  std::string problem;  // Why there are no GPUs, in words; empty when all went well.
};

// Opens the library, asks, and closes it. Never fails: what cannot be had is said in the report. `library` is another
// than the usual one.
DriverReport probe_nvml(const std::string& library = {});

// The layout that the slices of `gpu` make in `geometry`. Slices that the table does not know are named in `unknown`.
struct RecognisedLayout {
  Layout layout;
  std::vector<std::string> unknown;
};
RecognisedLayout recognise_layout(const Geometry& geometry, const DriverGpu& gpu);

// "MIG-..." of the part that has all of a slice: what CUDA_VISIBLE_DEVICES takes. Empty if there is no such slice, or
// it is in several parts or in none. A slice is known by its MigProfile and its start, because UUIDs change with each
// cut.
std::string find_mig_uuid(const Geometry& geometry, const DriverGpu& gpu, const Slice& slice);

// Where the driver's list differs from our table, one sentence each: names that drifted, other placements, other counts
// of multiprocessors or slices. Unverified numbers of the table are confirmed or corrected in words.
std::vector<std::string> compare_profiles(const Geometry& geometry, const DriverGpu& gpu);

}  // namespace tangram::adapters

// The GPUs of the stand-in driver: what exists on them, and what a driver would say to a change.
//
// Boards, declarations and rules are this folder's own (boards.h, nvml_api.h), written from NVIDIA's documentation: a
// mistake in Tangram's tables or declarations, or in using them, is refused or shows in what is read.
#pragma once

#include <string>
#include <vector>

#include "boards.h"
#include "nvml_api.h"

namespace fake_nvml {

struct Part {
  unsigned id = 0;
  unsigned number = 0;
  unsigned start = 0;
  std::string uuid;
};

struct Slice {
  unsigned id = 0;
  unsigned profile_id = 0;
  unsigned start = 0;
  std::vector<Part> parts;
};

struct Process {
  unsigned slice_id = 0;
  int pid = 0;
};

// An error that was reported. Its number grows by one with each, over all GPUs.
struct Xid {
  unsigned number = 0;
  std::size_t gpu = 0;
  unsigned code = 0;
  unsigned slice_id = 0xFFFFFFFF;
};

struct Gpu {
  std::string type;
  std::string uuid;
  bool mode = false;     // MIG mode now,
  bool pending = false;  // and after the next reset.
  bool resets = false;   // A change of mode waits for a reset.
  bool drifts = false;   // Its driver says 7g.79gb where others say 7g.80gb.
  unsigned pci_id = 0;
  bool gone = false;  // Off the bus: calls about it fail.
  std::vector<Slice> slices;
  std::vector<Process> processes;

  const Board& board() const;
  Slice* slice(unsigned id);
};

// What a part of a slice of `profile` may have. False where the number is not for it.
struct PartProfile {
  unsigned id = 0;
  unsigned slices = 0;
  unsigned multiprocessors = 0;
  unsigned count = 0;
};
bool part_profile(const Gpu& gpu, const ProfileRow& profile, unsigned number, PartProfile& found);
// The compute units that a part covers. On Ampere they are its compute slices; on later boards a part covers a power of
// two of them, as `nvidia-smi mig -lcipp` shows: 3g lists 0:4, 7g 0:8, a 1g of twice the memory 0:2.
unsigned span_of(const Gpu& gpu, const ProfileRow& profile, const PartProfile& part);
// Parts start at multiples of this.
unsigned step_of(const Gpu& gpu, unsigned span);
// Those that all parts of a slice of `profile` can cover together.
unsigned span_of_all(const Gpu& gpu, const ProfileRow& profile);

struct Machine {
  std::vector<Gpu> gpus;
  unsigned made = 0;      // Counts everything that ever was made: UUIDs are never used twice.
  std::vector<Xid> xids;  // The last ones.

  void raise(std::size_t gpu, unsigned code, unsigned slice_id);

  // Each answers what the driver would, and changes nothing unless that is success.
  nvmlReturn_t set_mode(Gpu& gpu, bool on, nvmlReturn_t& activation);
  nvmlReturn_t create_slice(Gpu& gpu, unsigned profile_id, const nvmlGpuInstancePlacement_t& place, unsigned& id);
  nvmlReturn_t destroy_slice(Gpu& gpu, unsigned id);
  nvmlReturn_t create_part(Gpu& gpu, unsigned slice_id, unsigned number, const nvmlComputeInstancePlacement_t& place,
                           unsigned& id);
  nvmlReturn_t destroy_part(Gpu& gpu, unsigned slice_id, unsigned id);

  // One line for each thing: `gpu`, `gone`, `slice`, `part`, `process`, `made`, `xid`. Both ways.
  std::string text() const;
  static Machine parse(const std::string& text);
};

// The number by which the library lists a profile.
unsigned number_of(const ProfileRow& profile);

}  // namespace fake_nvml

// The GPUs of the stand-in driver: what exists on them, and what a driver would say to a change.
//
// Boards, profiles, places and limits are those of Tangram's tables; the rules are written anew here, so that a mistake
// of the program in using them is refused as a driver would refuse it.
#pragma once

#include <string>
#include <vector>

#include "adapters/nvml/abi.h"
#include "core/geometry.h"

namespace fake_nvml {

using tangram::adapters::nvml_abi::Placement;
using tangram::adapters::nvml_abi::Status;

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

struct Gpu {
  std::string type;
  std::string uuid;
  bool mode = false;     // MIG mode now,
  bool pending = false;  // and after the next reset.
  bool resets = false;   // A change of mode waits for a reset.
  bool drifts = false;   // Its driver says 7g.79gb where the tables say 7g.80gb.
  unsigned pci_id = 0;
  std::vector<Slice> slices;
  std::vector<Process> processes;

  const tangram::Geometry& geometry() const;
  const tangram::MigProfile* profile(unsigned id) const;  // By the vendor's id, or null.
  Slice* slice(unsigned id);
};

// What a part of a slice of `profile` may have, or null where the number is not for it.
struct PartProfile {
  unsigned id = 0;
  unsigned slices = 0;
  unsigned multiprocessors = 0;
  unsigned count = 0;
};
bool part_profile(const Gpu& gpu, const tangram::MigProfile& profile, unsigned number, PartProfile& found);

struct Machine {
  std::vector<Gpu> gpus;
  unsigned made = 0;  // Counts everything that ever was made: UUIDs are never used twice.

  // Each answers what the driver would, and changes nothing unless that is success.
  Status set_mode(Gpu& gpu, bool on, Status& activation);
  Status create_slice(Gpu& gpu, unsigned profile_id, const Placement& place, unsigned& id);
  Status destroy_slice(Gpu& gpu, unsigned id);
  Status create_part(Gpu& gpu, unsigned slice_id, unsigned number, const Placement& place, unsigned& id);
  Status destroy_part(Gpu& gpu, unsigned slice_id, unsigned id);

  // One line for each thing: `gpu`, `slice`, `part`, `process`, `made`. Both ways.
  std::string text() const;
  static Machine parse(const std::string& text);
};

// The number by which the library lists a profile.
unsigned number_of(const tangram::MigProfile& profile);

}  // namespace fake_nvml

// The boards of the stand-in driver: what NVIDIA's "MIG User Guide" says of them and what `nvidia-smi mig -lgip` and
// `-lgipp` print on them. Written apart from Tangram's tables (src/core/geometry_catalog.cc), which the tests hold
// against these. Boards without a public listing of their multiprocessors (B200 and later) are not here.
#pragma once

#include <string>
#include <vector>

namespace fake_nvml {

struct Engines {
  unsigned decoders = 0;
  unsigned encoders = 0;
  unsigned jpeg = 0;
  unsigned optical_flow = 0;
};

// One row of `-lgip`, with its row of `-lgipp`.
struct ProfileRow {
  std::string name;     // Without the "MIG " before it.
  unsigned number = 0;  // NVML_GPU_INSTANCE_PROFILE_...
  unsigned id = 0;
  unsigned slices = 0;     // Compute slices: the 3 of 3g.
  unsigned instances = 0;  // How often the board holds it.
  unsigned multiprocessors = 0;
  double memory_gib = 0;
  unsigned copy_engines = 0;
  Engines media;
  std::vector<unsigned> starts;
  unsigned size = 0;  // Of each placement, in the board's memory units.
};

struct Board {
  std::string type;  // The word for it in the text of a machine.
  std::string name;  // As nvmlDeviceGetName answers.
  unsigned pci_device = 0;
  unsigned memory_mib = 0;
  unsigned slices = 0;
  std::vector<ProfileRow> profiles;

  const ProfileRow* with_id(unsigned id) const;
  const ProfileRow* with_number(unsigned number) const;
  const ProfileRow& whole() const;  // The row that covers the board.
};

const std::vector<Board>& boards();
const Board* find_board(const std::string& type);

}  // namespace fake_nvml

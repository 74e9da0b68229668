// What the driver tells, read from a library that is open. For the files of this folder.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "adapters/nvml/library.h"
#include "adapters/nvml/nvml.h"

namespace tangram::adapters {

// Why the library cannot be used, in words; empty when it is open and ready.
std::string open_problem(NvmlLibrary& library);

DriverReport read_driver(const NvmlLibrary& library);
DriverGpu read_gpu(const NvmlLibrary& library, unsigned index);

// The part that has all of a slice. On boards where two numbers stand for the same, both match: of a double-memory
// slice only one of them brings out all multiprocessors from Hopper on.
struct WholePart {
  int number = 0;
  unsigned id = 0;
  std::vector<int> equals;

  bool matches(int other) const { return std::ranges::find(equals, other) != equals.end(); }
};
// Nothing: the driver does not tell.
std::optional<WholePart> whole_part(const NvmlLibrary& library, nvml_abi::GpuInstanceHandle slice);

}  // namespace tangram::adapters

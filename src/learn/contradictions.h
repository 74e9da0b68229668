// Measurements that cannot both be true.
#pragma once

#include <cstddef>
#include <vector>

#include "core/measurement.h"

namespace tangram::learn {

// Both are indices of measurements of one model on one device type. The first ran out of memory, although the second
// fitted into a slice with no more memory while being at least as large in batch, input size and processes.
struct Contradiction {
  std::size_t failed = 0;
  std::size_t fitted = 0;

  bool operator==(const Contradiction&) const = default;
};

// One for each run that should have fitted, ascending by it. Profiles that the device does not have are left out.
std::vector<Contradiction> contradictions_of(const Measurements& measurements);

}  // namespace tangram::learn

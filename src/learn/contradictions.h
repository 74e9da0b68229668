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

// A run that is said to have fitted with more memory than its slice has.
struct Overfull {
  std::size_t run = 0;
  double slice_mib = 0;

  bool operator==(const Overfull&) const = default;
};

// Ascending. Slices whose memory is not known hold anything.
std::vector<Overfull> overfull_of(const Measurements& measurements);

// Two runs of one model on one device type whose latencies differ by more than their work does. Latency grows at most
// in proportion to batch and processes, with the square of the input size, and inversely to the slice; it does not fall
// when any of them asks for more. `factor` is what is left beyond that: about a thousand where units are mixed.
struct Mismatch {
  std::size_t run = 0;    // The one of the two that contradicts more runs; both are indices of measurements.
  std::size_t other = 0;  // The run that it contradicts most.
  double factor = 1;

  bool operator==(const Mismatch&) const = default;
};

// Published tables of sound measurements stay below 2. The limit is nearer to a thousand than to one: beyond it another
// unit explains the pair better than the work.
inline constexpr double kMismatchFactor = 31.6;
// Each run is compared with at most about so many others, evenly chosen, so that large tables stay cheap.
inline constexpr std::size_t kMismatchCompared = 2000;

// Approximately the smallest set of runs without which no two of the rest differ by more than kMismatchFactor:
// repeatedly the run that contradicts most others, the first of several. Ascending. If half of the runs are in another
// unit it is one of the halves, and the data do not say which.
std::vector<Mismatch> mismatches_of(const Measurements& measurements);

}  // namespace tangram::learn

// What is believed about the memory that a model needs.
//
// Each process holds its own weights and buffers: processes * (base + sample * batch * size-factor). Neither constant
// is known at first; a run that fitted bounds them from above, one that did not from below, and a measured peak pins
// them. The belief is a weighted set of guesses, so the frontier between "fits" and "does not" is as sharp as the
// measurements made it and no sharper.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "learn/candidate.h"

namespace tangram::learn {

// One guess. MiB; the size factor is r * (1 + quadratic * r) / (1 + quadratic) with r = size / size_reference.
struct MemoryGuess {
  double base_mib = 0;
  double sample_mib = 0;
  double quadratic = 0;

  bool operator==(const MemoryGuess&) const = default;
};

struct MemoryBelief {
  std::string device;
  double size_reference = 1;
  bool measured = false;  // A peak was measured, so absolute numbers mean something.
  std::vector<MemoryGuess> guesses;
  std::vector<double> weights;  // Of the guesses; they sum to one.
  // Weighted means of the logarithms, for models that come later.
  double base_log_mib = 0;
  double sample_log_mib = 0;

  // Peak of all processes under one guess.
  double mib(const MemoryGuess& guess, const Candidate& candidate) const;
  double mean_mib(const Candidate& candidate) const;
  // MiB of the slice; nullopt if its memory is not published.
  std::optional<double> capacity_mib(const Candidate& candidate) const;
  // For each guess whether it fits, from 0 to 1: usable memory is known to about kCapacitySpread.
  std::vector<double> fits(const Candidate& candidate) const;
  double fits_probability(const Candidate& candidate) const;

  bool operator==(const MemoryBelief&) const = default;
};

// The relative uncertainty of capacity: allocators fragment, and the driver keeps some for itself.
inline constexpr double kCapacitySpread = 0.06;

// `others` are beliefs about models seen before; they say what is usual.
MemoryBelief believe_memory(const std::string& device, std::span<const Measurement> measurements,
                            std::span<const MemoryBelief> others);

}  // namespace tangram::learn

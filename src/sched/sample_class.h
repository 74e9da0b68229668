// Classes of sample counts: how finely the scheduler tells requests and batches of several samples apart.
#pragma once

#include <bit>
#include <cstdint>

namespace tangram::sched {

// Steps of a quarter octave: 1, 2, ..., 8, 10, 12, 14, 16, 20, ... each have a class of their own, and a count in
// between has the class of the next larger step. Requires samples >= 1.
inline std::uint32_t sample_class(std::int32_t samples) {
  if (samples <= 8) return static_cast<std::uint32_t>(samples - 1);
  const auto before = static_cast<std::uint32_t>(samples - 1);
  const auto octave = static_cast<std::uint32_t>(std::bit_width(before)) - 1;
  return 8 + 4 * (octave - 3) + ((before >> (octave - 2)) & 3);
}

// How many classes counts from 1 to `samples_max` fall into.
inline std::uint32_t sample_class_count(std::int32_t samples_max) { return sample_class(samples_max) + 1; }

}  // namespace tangram::sched

// Which job gets which of the slices that can be lent now.
//
// Jobs are served in the order of priority, then deadline, then attained service (slice-seconds, least first: the ATS
// order of Tiresias and DeepBoot), then age. Attained service counts in queues as in Tiresias, each twice as long as the
// one before, and within a queue those that have slices are first: otherwise two jobs would take one slice from each
// other at every look. First each job in this order gets its minimum, if it is left; a job whose
// minimum is not waits. Then slices go one by one, within a priority, to the job that gains most by one more, in parts of
// its speed: that maximises the product of their speeds. A job whose steps were not timed is taken to scale perfectly, so
// it tries more slices. A slice that makes no job faster by kGainMin is given to nobody. A job keeps the slices that it
// has, as far as its number allows, because each change costs it a moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tangram::train {

inline constexpr double kGainMin = 0.02;
inline constexpr double kFirstQueue_s = 60;  // Slice-seconds until a job has left the first queue.

struct SliceAsker {
  int priority = 0;
  std::int64_t deadline_s = std::numeric_limits<std::int64_t>::max();
  double attained_s = 0;    // Slice-seconds received.
  std::uint64_t order = 0;  // Of submission.
  std::size_t min = 1;
  std::size_t max = 1;
  std::vector<double> speeds = {};    // With 1, 2, ... slices, up to any scale. Shorter than `max`: not known.
  std::vector<bool> fits = {};        // By slice: it may run there. Shorter than the slices: false for the others.
  std::vector<std::size_t> has = {};  // Slices that it has, by their place in the list.
};

// By job: its slices, as places in a list of `slices` slices that are free for training or with it.
std::vector<std::vector<std::size_t>> share_slices(std::span<const SliceAsker> jobs, std::size_t slices);

}  // namespace tangram::train

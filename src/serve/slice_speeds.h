// Notices slices whose batches take much longer than the plan says.
//
// Whatever the run times come from, a slice that needs a multiple of them breaks promises: its GPU is throttled, its
// cores are shared with somebody, or the measurements are of another machine. Small differences are the business of the
// scheduler's corrections and of DriftWatch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "core/ids.h"

namespace tangram::serve {

class SliceSpeeds {
 public:
  struct Options {
    double factor = 2;        // A batch that takes so many times as long as planned is slow.
    std::uint32_t least = 3;  // Batches without which nothing is said.
    // Batches of this and the last period count, so a slice that runs one every ten seconds is judged within a minute.
    Duration period = std::chrono::seconds(20);
  };
  SliceSpeeds() : SliceSpeeds(Options{}) {}
  explicit SliceSpeeds(const Options& options) : options_(options) {}

  // A batch has ended. The answer, when it changes: true if the slice has become slow, which takes two of three batches
  // that are; false if it is as planned again, when fewer than one of three is.
  std::optional<bool> observe(SliceId slice, TimePoint now, Duration took, Duration planned);
  bool slow(SliceId slice) const { return slice.index() < slices_.size() && slices_[slice.index()].slow; }
  // Real over planned run times, the geometric mean of what counts; 1 where nothing does.
  double ratio(SliceId slice) const;

 private:
  struct Period {
    std::uint32_t batches = 0;
    std::uint32_t slow = 0;
    double log_sum = 0;
  };
  struct Slice {
    TimePoint begin;
    std::array<Period, 2> periods = {};  // The present one and the last.
    bool slow = false;
  };

  Options options_;
  std::vector<Slice> slices_;
};

}  // namespace tangram::serve

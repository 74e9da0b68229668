// Ownership is a mean over a step, so joining two steps weights each by its duration. Steps may differ in length,
// because a step ends at the first tick at or after its nominal length.

#include "lab/ownership.h"

#include <algorithm>

namespace tangram::lab {
namespace {

// The mean of two consecutive steps; `share` is the first one's part of the time.
Ownership mean_of(const Ownership& first, const Ownership& second, double share) {
  const auto mean = [&](double Ownership::*count) { return first.*count * share + second.*count * (1 - share); };
  return {first.at_s,
          mean(&Ownership::training),
          mean(&Ownership::running),
          mean(&Ownership::guarded),
          mean(&Ownership::asleep),
          mean(&Ownership::free)};
}

}  // namespace

std::vector<Ownership> coarser(const std::vector<Ownership>& timeline, double end_s) {
  std::vector<Ownership> half;
  for (std::size_t i = 0; i + 1 < timeline.size(); i += 2) {
    // A step ends where the next one begins; the last one ends with the time line.
    const double until_s = i + 2 < timeline.size() ? timeline[i + 2].at_s : end_s;
    const double share = (timeline[i + 1].at_s - timeline[i].at_s) / std::max(until_s - timeline[i].at_s, 1e-9);
    half.push_back(mean_of(timeline[i], timeline[i + 1], share));
  }
  return half;
}

}  // namespace tangram::lab

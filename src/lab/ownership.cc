#include "lab/ownership.h"

#include <algorithm>

namespace tangram::lab {
namespace {

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
    const double until_s = i + 2 < timeline.size() ? timeline[i + 2].at_s : end_s;
    const double share = (timeline[i + 1].at_s - timeline[i].at_s) / std::max(until_s - timeline[i].at_s, 1e-9);
    half.push_back(mean_of(timeline[i], timeline[i + 1], share));
  }
  return half;
}

}  // namespace tangram::lab

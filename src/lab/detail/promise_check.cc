// The decisions of the sequential test. They see intervals alone, so that services that are simulated by themselves and
// services that share slices are judged alike.

#include "lab/detail/promise_check.h"

#include <algorithm>

#include "base/math.h"

namespace tangram::lab::detail {

// True if the promise is broken in some view.
bool is_broken(const std::vector<TrafficView>& views, const ShareEstimate& estimate, double target) {
  return std::ranges::any_of(views, [&](const TrafficView& view) {
    return view.binding && estimate.interval(view.weight, kErrorReject).high < target;
  });
}

// The binding view with the least room above the promise.
Judged tightest(const std::vector<TrafficView>& views, const ShareEstimate& estimate, double tail) {
  Judged least;
  for (const auto& view : views) {
    if (!view.binding) continue;
    const Judged judged{&view, estimate.interval(view.weight, tail)};
    if (least.view == nullptr || judged.interval.low < least.interval.low) least = judged;
  }
  return least;
}

// True if a look may stop after few replicates, since the cover is far from keeping the promise.
bool is_far_off(const std::vector<TrafficView>& views, const ShareEstimate& estimate, double miss_allowed) {
  const std::size_t n = estimate.replicates();
  if (n >= kReplicatesFirst) return false;
  constexpr double kFarOff = 3;
  return std::ranges::any_of(views, [&](const TrafficView& view) {
    return view.binding && 1 - estimate.share(view.weight) > kFarOff * miss_allowed;
  });
}

double busiest_share(const TrafficDesign& design, const ShareEstimate& estimate) {
  double least = estimate.part_share(design.busiest_part());
  for (const auto& view : design.views()) {
    if (view.name == "bursts") least = std::min(least, estimate.share(view.weight));
  }
  return least;
}

// The requests after which a promise without any loss is certified at a check.
std::uint64_t requests_needed(double target, double error) {
  constexpr double kLossesTogether = 5;  // As ShareEstimate has it.
  return static_cast<std::uint64_t>(-math::log(error * kErrorEarly) * kLossesTogether / (1 - target));
}

}  // namespace tangram::lab::detail

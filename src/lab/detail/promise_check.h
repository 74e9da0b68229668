// The sequential test of a promise: what is asked of an estimate after each check.
#pragma once

#include <cstdint>
#include <vector>

#include "lab/share_estimate.h"
#include "lab/traffic_design.h"

namespace tangram::lab::detail {

inline constexpr std::size_t kReplicatesFirst = 4;
// The checks before the last share a fifth of the error: at 4, 8, 16, ... replicates there are ten of them at most.
inline constexpr double kErrorEarly = 0.2 / 10;
inline constexpr double kErrorLast = 0.8;
// A cover that would do may be rejected with this probability at each check. That costs a slice, not a promise.
inline constexpr double kErrorReject = 0.02;

// One view of an estimate, held against the promise.
struct Judged {
  const TrafficView* view = nullptr;
  ShareInterval interval;
};

// True if the promise is broken in some view.
bool is_broken(const std::vector<TrafficView>& views, const ShareEstimate& estimate, double target);

// The binding view with the least room above the promise.
Judged tightest(const std::vector<TrafficView>& views, const ShareEstimate& estimate, double tail);

// True if a look may stop after few replicates, since the cover is far from keeping the promise.
bool is_far_off(const std::vector<TrafficView>& views, const ShareEstimate& estimate, double miss_allowed);

// The share in time where the rate is highest: in bursts on the whole, or once they have lasted if that is less, or in
// the busiest windows.
double busiest_share(const TrafficDesign& design, const ShareEstimate& estimate);

// The requests after which a promise without any loss is certified at a check.
std::uint64_t requests_needed(double target, double error);

}  // namespace tangram::lab::detail

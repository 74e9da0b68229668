#include "control/surge_watch.h"

#include <algorithm>
#include <cmath>

namespace tangram::control {

std::optional<double> SurgeWatch::look(std::uint64_t requests, double seconds, double planned_per_s) {
  const double rate = static_cast<double>(requests) / seconds;
  const double expected = planned_per_s * seconds;
  // The variance of a Poisson number is its mean. The floor of 1 keeps a single request of a service with next to no
  // traffic from counting as a surge.
  const bool above =
      static_cast<double>(requests) > expected + options_.deviations * std::sqrt(std::max(expected, 1.0));
  if (peak_ > 0) follow(rate, above);
  if (!above) return std::nullopt;
  peak_ = std::max(peak_, rate);
  calm_ = 0;
  double demand = rate * options_.margin;
  // A clear jump is met at the height of earlier surges at once, which saves a second change of plan on the way up.
  if (rate > options_.jump * planned_per_s && !peaks_.empty()) demand = std::max(demand, std::ranges::max(peaks_));
  return demand;
}

void SurgeWatch::follow(double rate, bool above) {
  // After the plan is raised the surge continues within the planned rate. Its height is still recorded for the next
  // one.
  peak_ = std::max(peak_, rate);
  calm_ = above ? 0 : calm_ + 1;
  if (calm_ < options_.calm_looks) return;
  peaks_.push_back(peak_);
  if (peaks_.size() > options_.surges_max) peaks_.pop_front();
  peak_ = 0;
}

}  // namespace tangram::control

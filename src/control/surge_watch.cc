#include "control/surge_watch.h"

#include <algorithm>
#include <cmath>

namespace tangram::control {

std::optional<double> SurgeWatch::look(std::uint64_t requests, double seconds, double planned_per_s) {
  const double rate = static_cast<double>(requests) / seconds;
  const double expected = planned_per_s * seconds;
  // The variance of a Poisson number is its mean. Of services with next to no traffic one request is no surge.
  const bool above =
      static_cast<double>(requests) > expected + options_.deviations * std::sqrt(std::max(expected, 1.0));
  if (peak_ > 0) follow(rate, above);
  if (!above) return std::nullopt;
  peak_ = std::max(peak_, rate);
  calm_ = 0;
  double demand = rate * options_.margin;
  if (rate > options_.jump * planned_per_s && !peaks_.empty()) demand = std::max(demand, std::ranges::max(peaks_));
  return demand;
}

void SurgeWatch::follow(double rate, bool above) {
  // A surge that has been planned for goes on within the planned rate; its height is still worth knowing.
  peak_ = std::max(peak_, rate);
  calm_ = above ? 0 : calm_ + 1;
  if (calm_ < options_.calm_looks) return;
  peaks_.push_back(peak_);
  if (peaks_.size() > options_.surges_max) peaks_.pop_front();
  peak_ = 0;
}

}  // namespace tangram::control

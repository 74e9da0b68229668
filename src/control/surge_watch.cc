#include "control/surge_watch.h"

#include <algorithm>
#include <cmath>

namespace tangram::control {

namespace {
constexpr double kHeightDeviations = 2;
}  // namespace

std::optional<double> SurgeWatch::look(std::uint64_t requests, double seconds, double planned_per_s) {
  const double rate = static_cast<double>(requests) / seconds;
  const double expected = planned_per_s * seconds;
  // The variance of a Poisson number is its mean, but small ones have a longer tail than the normal distribution. Their
  // roots are almost normal, with a deviation of a half: so roots are compared. Of 3 expected requests, 11 are
  // chance once in 3,000 looks, and a fast day has 8,000; of 1,000 the two rules differ by 4.
  // The height that is remembered leaves out what chance adds to the highest of many looks. Of 100 requests, two
  // deviations are a fifth; of 5,000 they are 3 %.
  const double count = static_cast<double>(requests);
  const double height = std::max(0.0, count - kHeightDeviations * std::sqrt(count)) / seconds;
  const bool above = std::sqrt(count) > std::sqrt(expected) + options_.deviations / 2;
  if (peak_ > 0) follow(height, above);
  if (!above) return std::nullopt;
  peak_ = std::max(peak_, height);
  calm_ = 0;
  double demand = rate * options_.margin;
  // A clear jump is met at the height of earlier surges at once, which saves a second change of plan on the way up.
  if (rate > options_.jump * planned_per_s && !peaks_.empty()) demand = std::max(demand, std::ranges::max(peaks_));
  return demand;
}

void SurgeWatch::follow(double height, bool above) {
  // After the plan is raised the surge continues within the planned rate. Its height is still recorded for the next
  // one.
  peak_ = std::max(peak_, height);
  calm_ = above ? 0 : calm_ + 1;
  if (calm_ < options_.calm_looks) return;
  peaks_.push_back(peak_);
  if (peaks_.size() > options_.surges_max) peaks_.pop_front();
  peak_ = 0;
}

}  // namespace tangram::control

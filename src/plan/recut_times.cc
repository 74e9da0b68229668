#include "plan/recut_times.h"

#include <map>
#include <utility>

#include "base/check.h"

namespace tangram::plan {

// The runs themselves are not kept, so the median of several layouts is approximated by the mean of their medians.
std::vector<double> medians_ms(const std::vector<TimedRecut>& recuts) {
  std::map<std::size_t, std::pair<double, double>> sums;  // Of runs times median, and of runs.
  for (const auto& recut : recuts) {
    auto& [time, runs] = sums[recut.slices];
    time += recut.runs * recut.median_ms;
    runs += recut.runs;
  }
  std::vector<double> medians;
  for (const auto& [slices, sum] : sums) {
    // The map ascends, so resize() fills a gap with the value of the next smaller number, and the beginning with the
    // first.
    medians.resize(slices, medians.empty() ? sum.first / sum.second : medians.back());
    medians.back() = sum.first / sum.second;
  }
  return medians;
}

RecutTimes at_speed(RecutTimes times, double speed) {
  TANGRAM_CHECK(speed > 0, "a day passes at some speed");
  for (double& ms : times.create_ms) ms /= speed;
  for (double& ms : times.destroy_ms) ms /= speed;
  return times;
}

}  // namespace tangram::plan

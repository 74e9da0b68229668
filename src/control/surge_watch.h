// Notices that a service's rate jumps between two windows of the forecast.
//
// The rate of each look (ten seconds, say) is compared with the planned rate. An excess that chance does not explain
// begins a surge. The heights of past surges are remembered, and the next surge is planned for at that height at once,
// because one that is seen halfway up would otherwise need two changes of plan.
//
// Example: 100 requests/s are planned for, which is 1,000 in a look of 10 s with a deviation of about 32. A look of
// 1,120 is chance (fewer than four deviations), one of 1,200 is a surge, and 1.25 * 120 = 150 requests/s are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace tangram::control {

class SurgeWatch {
 public:
  struct Options {
    double deviations = 4;       // An excess of so many standard deviations of a Poisson number is not chance: one look
                                 // in 30,000 shows it without a cause, at the planned rate once in four days. Small
                                 // numbers are judged by their roots.
    double margin = 1.25;        // Asked for over what was seen: a jump is mostly seen on its way up.
    double jump = 1.3;           // A rate of so many times the planned one is met with the heights of past surges, ...
    std::size_t surges_max = 4;  // ... the highest of so many. Above `margin`, so that a small excess is not.
    int calm_looks = 6;          // So many looks within the planned rate end a surge: a minute of ten seconds each.
  };
  explicit SurgeWatch(const Options& options) : options_(options) {}

  // A look of `seconds` brought `requests`. Answers the rate to plan for at once, or nothing if there is no surge.
  std::optional<double> look(std::uint64_t requests, double seconds, double planned_per_s);

 private:
  // Follows the surge that goes on: its height, and whether it has ended. Requires that one does.
  void follow(double height, bool above);

  Options options_;
  double peak_ = 0;           // Height of the surge that goes on, in requests a second; 0: none does.
  int calm_ = 0;              // Looks in a row within the planned rate, while a surge goes on.
  std::deque<double> peaks_;  // Heights of the surges before, oldest first.
};

}  // namespace tangram::control

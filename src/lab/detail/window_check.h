// Whether windows of an Slo keep its percentile one by one, and not only on average.
//
// No number of slices keeps a promise in every window for ever: chance fills any window at times. What is certified is
// the share of the windows that keep it, where the rate is highest.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/metrics.h"

namespace tangram::lab::detail {

// The share of the busiest windows that has to keep the percentile.
inline constexpr double kWindowsKept = 0.95;

class WindowCheck {
 public:
  // `target` is the share in time that a window has to have. A window is simulated in `pieces`, each of them after a
  // warm-up of its own: one if it is short enough to be simulated whole.
  WindowCheck(double target, std::size_t pieces) : target_(target), pieces_(pieces) {}

  // One tally for each piece. A piece without requests keeps every promise.
  void add(std::span<const sim::Tally> pieces);
  // True if kWindowsKept of the windows keep the percentile, but for a probability of `error`. Windows that are
  // simulated whole are counted, which needs no assumption. Of pieces, the share of a window is taken to be normal.
  bool holds(double error) const;
  // The same for the opposite.
  bool is_broken(double error) const;
  // The share of the windows that kept the percentile.
  double kept() const;

 private:
  double windows_kept() const;
  double mean() const;
  // The standard deviation of the share of one piece.
  double deviation() const;

  double target_;
  std::size_t pieces_;
  std::vector<double> shares_;  // By piece.
};

}  // namespace tangram::lab::detail

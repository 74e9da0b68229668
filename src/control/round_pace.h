// When the allocator of training jobs is asked again.
//
// A round is held every `interval_s`, and sooner when a job or a GPU came or went, but never within kRoundGapS of the
// last one: a change of plan ends many leases in the same second, and each round may restart jobs, which costs each of
// them a pause of about as long.
#pragma once

#include <cstdint>

namespace tangram::control {

class RoundPace {
 public:
  static constexpr double kRoundGapS = 5;

  explicit RoundPace(double interval_s) : interval_s_(interval_s) {}

  // A job or a GPU came or went.
  void mark_changed() { changed_ = true; }
  // True if a round is to be held now. The first one always is.
  bool due(double now_s) const { return now_s - last_s_ >= (changed_ ? kRoundGapS : interval_s_); }
  // A round is held. It takes every change so far into account.
  void hold(double now_s) {
    last_s_ = now_s;
    changed_ = false;
    ++rounds_;
  }
  std::int64_t rounds() const { return rounds_; }

 private:
  double interval_s_;
  double last_s_ = -1e9;  // Longer ago than any interval.
  bool changed_ = false;  // Since the last round.
  std::int64_t rounds_ = 0;
};

}  // namespace tangram::control

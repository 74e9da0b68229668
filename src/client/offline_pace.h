// How fast an offline job goes: how many rows are under way, and whether it will end in time.
//
// Both are told what happened and when, and read no clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace tangram::client {

// How many rows are under way at once. The gateway runs them when it has room, so more of them are only worth their
// memory while they bring more answers: the number is doubled as long as that brings a tenth more answers a second, and
// halved when it does not; a refusal halves it, too. It is tried anew now and then, because the room changes.
class RowWindow {
 public:
  static constexpr std::size_t kFirst = 8;
  static constexpr double kGain = 1.1;
  static constexpr Duration kStep = std::chrono::milliseconds(500);  // How long a number is tried at least.
  static constexpr int kRestSteps = 10;  // How many steps a number that proved right is kept.

  explicit RowWindow(std::size_t limit) : size_(std::min(kFirst, limit)), limit_(limit) {}

  std::size_t size() const { return size_; }
  void set_limit(std::size_t limit) {
    limit_ = limit;
    size_ = std::min(size_, limit);
  }
  void on_answer(TimePoint now);
  void on_refusal(TimePoint now);

 private:
  // Starts to count answers for the current window size.
  void begin_step(TimePoint now);
  // Requires a step with answers. Compares its rate with the one before and doubles, halves or keeps the window.
  void end_step(TimePoint now);

  std::size_t size_;
  std::size_t limit_;
  std::optional<TimePoint> step_began_;
  std::uint64_t step_answers_ = 0;
  double rate_before_ = 0;  // With half as many; 0: unknown.
  int rest_ = 0;
};

// The rate at which rows are done, smoothed over about ten seconds, and what follows from it.
class RowPace {
 public:
  // `resolved`: rows that have a result so far.
  void on_progress(TimePoint now, std::uint64_t resolved);
  double rows_per_s() const { return rows_per_s_; }
  // How long `rows` take at this rate; nothing while it is not known.
  std::optional<Duration> time_for(std::uint64_t rows) const;

 private:
  std::optional<TimePoint> last_;
  std::uint64_t last_resolved_ = 0;
  double rows_per_s_ = 0;
};

// A job is pressed when it would end in the last tenth of the time that it has, or later.
bool is_pressed(Duration left_to_deadline, std::optional<Duration> needed);

}  // namespace tangram::client

// How many rows to keep under way, and how fast the job progresses.
//
// RowWindow doubles the window while doubling raises the rate by the factor kGain, and halves it after a rejection or a
// step that did not pay. More rows in flight than the server can use only fill its queue.
#include "client/offline_pace.h"

#include <cmath>

namespace tangram::client {
namespace {

constexpr double kMemoryS = 10;     // Of the smoothed rate.
constexpr double kUpdateS = 0.25;   // Shorter spells tell nothing about a rate.
constexpr double kPressedAt = 0.9;  // Share of the time left that the rest may take.

}  // namespace

void RowWindow::on_answer(TimePoint now) {
  if (!step_began_) begin_step(now);
  ++step_answers_;
  // The rate at a window size is known only after about two full windows of answers.
  if (now - *step_began_ >= kStep && step_answers_ >= 2 * size_) end_step(now);
}

// A rejection halves the window at once, as TCP does on loss, and rests before it grows again.
void RowWindow::on_refusal(TimePoint now) {
  size_ = std::max<std::size_t>(1, size_ / 2);
  rate_before_ = 0;
  rest_ = kRestSteps;
  begin_step(now);
}

void RowWindow::begin_step(TimePoint now) {
  step_began_ = now;
  step_answers_ = 0;
}

void RowWindow::end_step(TimePoint now) {
  const double rate = static_cast<double>(step_answers_) / to_seconds(now - *step_began_);
  begin_step(now);
  // Rest after a halving: growing at once would repeat the step that has just failed.
  if (rest_ > 0) {
    --rest_;
    return;
  }
  if (rate_before_ > 0 && rate < kGain * rate_before_) {
    size_ = std::max<std::size_t>(1, size_ / 2);
    rate_before_ = 0;
    rest_ = kRestSteps;
    return;
  }
  // At the limit the window stays. Later steps are still compared with the rate at half the size.
  if (size_ >= limit_) return;
  rate_before_ = rate;
  size_ = std::min(2 * size_, limit_);
}

void RowPace::on_progress(TimePoint now, std::uint64_t resolved) {
  if (!last_) {
    last_ = now;
    last_resolved_ = resolved;
    return;
  }
  const double spell_s = to_seconds(now - *last_);
  if (spell_s < kUpdateS) return;
  const double rate = static_cast<double>(resolved - last_resolved_) / spell_s;
  // An exponential average over uneven intervals; the first rate counts in full.
  const double weight = rows_per_s_ == 0 ? 1 : 1 - std::exp(-spell_s / kMemoryS);
  rows_per_s_ += weight * (rate - rows_per_s_);
  last_ = now;
  last_resolved_ = resolved;
}

std::optional<Duration> RowPace::time_for(std::uint64_t rows) const {
  if (rows == 0) return Duration::zero();
  if (rows_per_s_ <= 0) return std::nullopt;
  return from_seconds(static_cast<double>(rows) / rows_per_s_);
}

bool is_pressed(Duration left_to_deadline, std::optional<Duration> needed) {
  // Without a rate nothing is known; a job must not claim urgency before it has an answer.
  if (!needed) return false;
  return static_cast<double>(needed->count()) > kPressedAt * static_cast<double>(left_to_deadline.count());
}

}  // namespace tangram::client

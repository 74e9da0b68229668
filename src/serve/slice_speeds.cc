#include "serve/slice_speeds.h"

#include "base/math.h"

namespace tangram::serve {

// Counted, not averaged: one batch that stalls for a second must not make a slice slow.
std::optional<bool> SliceSpeeds::observe(SliceId id, TimePoint now, Duration took, Duration planned) {
  if (took <= Duration::zero() || planned <= Duration::zero()) return std::nullopt;
  if (id.index() >= slices_.size()) slices_.resize(id.index() + 1);
  Slice& slice = slices_[id.index()];
  if (now - slice.begin >= options_.period) {
    // Older than two periods: nothing of it counts.
    const bool follows = now - slice.begin < 2 * options_.period;
    slice.periods = {Period{}, follows ? slice.periods[0] : Period{}};
    slice.begin = now;
  }
  const double ratio = static_cast<double>(took.count()) / static_cast<double>(planned.count());
  Period& period = slice.periods[0];
  ++period.batches;
  period.slow += ratio >= options_.factor ? 1 : 0;
  period.log_sum += math::log(ratio);
  const std::uint32_t batches = period.batches + slice.periods[1].batches;
  const std::uint32_t slow = period.slow + slice.periods[1].slow;
  if (batches < options_.least) return std::nullopt;
  const bool before = slice.slow;
  if (3 * slow >= 2 * batches) slice.slow = true;
  if (3 * slow < batches) slice.slow = false;
  return slice.slow == before ? std::nullopt : std::optional(slice.slow);
}

double SliceSpeeds::ratio(SliceId id) const {
  if (id.index() >= slices_.size()) return 1;
  const auto& periods = slices_[id.index()].periods;
  const std::uint32_t batches = periods[0].batches + periods[1].batches;
  return batches == 0 ? 1 : math::exp((periods[0].log_sum + periods[1].log_sum) / batches);
}

}  // namespace tangram::serve

// Draws how far a batch departs from its predicted run time, and which faults occur.
//
// Noise and faults have separate random streams. So switching a fault on does not change the noise of the run, and the
// two runs stay comparable.

#include "sim/disturbances.h"

#include <algorithm>

#include "base/math.h"

namespace tangram::sim {

bool Disturbances::is_plain(const NoiseModel& noise, const FaultModel& faults) {
  return noise.factor == 1 && noise.spread == 0 && !noise.exponential && faults.slow_probability == 0 &&
         faults.fail_probability == 0 && faults.stuck_probability == 0;
}

RunDraw Disturbances::draw_disturbed_run(std::int64_t table_ns) {
  RunDraw run{table_ns, RunEnd::done};
  double factor = noise_.factor;
  if (noise_.exponential) factor *= noise_rng_.exponential(1);
  // The mean of exp(spread * normal) is exp(spread^2 / 2). The second term divides by it, so that noise leaves the mean
  // as predicted.
  const double spread = noise_.spread;
  if (spread > 0) factor *= math::exp(spread * noise_rng_.normal() - 0.5 * spread * spread);
  if (faults_.slow_probability > 0 && fault_rng_.chance(faults_.slow_probability)) factor *= faults_.slow_factor;
  if (faults_.fail_probability > 0 && fault_rng_.chance(faults_.fail_probability)) run.end = RunEnd::failed;
  // Stuck wins over failed: a batch that is never answered cannot report an error.
  if (faults_.stuck_probability > 0 && fault_rng_.chance(faults_.stuck_probability)) run.end = RunEnd::never;
  // Without scaling the predicted time is kept exactly, untouched by rounding through double.
  if (factor == 1) return run;
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): the time is positive.
  const auto scaled = static_cast<std::int64_t>(static_cast<double>(table_ns) * factor + 0.5);
  run.real_ns = std::max<std::int64_t>(1, scaled);
  return run;
}

// Exponential gaps: losses are independent of each other, a Poisson process over the whole fleet.
Duration Disturbances::draw_loss_gap() { return from_seconds(fault_rng_.exponential(faults_.slice_lost_mean_s)); }

std::uint32_t Disturbances::draw_victim(std::size_t count) {
  return static_cast<std::uint32_t>(fault_rng_.below(count));
}

bool Disturbances::draw_reshape_ok() { return !fault_rng_.chance(faults_.reshape_fail_probability); }

}  // namespace tangram::sim

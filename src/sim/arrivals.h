// When requests arrive and what they contain.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/rng.h"
#include "core/workload.h"

namespace tangram::sim {

struct Arrival {
  TimePoint at;
  std::int64_t size = 1;
  std::int32_t samples = 1;
};

// Draws from a SizeDistribution. TraceSize has no draws of its own: the trace carries the sizes.
class SizeSampler {
 public:
  explicit SizeSampler(const SizeDistribution& distribution);
  std::int64_t draw(Rng& rng) const;

 private:
  SizeDistribution distribution_;
  AliasTable bins_;
  double log_median_ = 0;
};

// The arrivals of one service, one after the other. For a closed loop these are the first arrivals of its clients only;
// the others follow the answers.
class ArrivalSource {
 public:
  // `rate_scale` multiplies the rate (and speeds up a trace). Streams are derived from `rng` and `index`, so the same
  // seed gives the same arrivals to every policy. `begin_s` is the time of the day at which the arrivals begin: rate
  // curves, diurnal rates and drifts of sizes are read from there on, and times are counted from there. A trace has no
  // time of the day and begins with its first request.
  ArrivalSource(const Service& service, const Rng& rng, std::uint64_t index, double rate_scale, double begin_s = 0);

  // The next arrival, in ascending order of time, or nothing when there are no more.
  std::optional<Arrival> next();
  // The arrival that a client of a closed loop makes after an answer at `answered`.
  Arrival after_answer(TimePoint answered);
  bool closed_loop() const { return std::holds_alternative<ClosedLoopTraffic>(service_->traffic); }

 private:
  // The time of the next arrival, or nothing when there are no more. Requires that `emitted_` counts those before it.
  std::optional<TimePoint> next_time();
  // Advances through pieces of constant rate until one unit-mean exponential of expected events has passed.
  TimePoint next_piecewise();
  // Sets piece_rate_ and piece_end_s_ for the piece that begins at at_s_.
  void enter_piece();
  // Requires a positive rate. Draws by thinning.
  TimePoint next_diurnal();
  // Draws size and samples of an arrival whose time is set.
  void fill(Arrival& arrival);

  const Service* service_;
  double scale_;
  double begin_s_;         // The time of the day at which the arrivals begin.
  double gap_mean_s_ = 0;  // Of Poisson traffic that flows.
  Rng times_;
  Rng states_;
  Rng sizes_;
  SizeSampler size_sampler_;
  SizeSampler samples_sampler_;
  std::optional<SizeSampler> later_sampler_;  // Of sizes that drift.
  std::uint64_t emitted_ = 0;
  double at_s_ = 0;  // The process's own clock, in seconds of the day.
  double piece_rate_ = 0;
  double piece_end_s_ = 0;
  bool bursting_ = false;
  bool flows_ = false;  // The rate is positive at some time. Kept, because the mean of a long curve takes long to find.
  std::size_t curve_step_ = 0;
};

}  // namespace tangram::sim

// How reality differs from the predictions: noise in run times, and faults.
#pragma once

#include <cstdint>

#include "base/rng.h"
#include "base/time.h"

namespace tangram::sim {

struct NoiseModel {
  double spread =
      0;  // Run times are multiplied by a log-normal of mean 1 and this standard deviation of its logarithm.
  double factor = 1;  // All run times are multiplied by this: the model is wrong by as much.
  bool exponential =
      false;  // Run times are exponential with the predicted mean instead, as queueing formulas have them.
};

struct FaultModel {
  double slow_probability = 0;  // A batch takes `slow_factor` as long.
  double slow_factor = 5;
  double fail_probability = 0;   // A batch ends with an error.
  double stuck_probability = 0;  // A batch is never answered.
  double slice_lost_mean_s = 0;  // Mean time between losses of a slice, over the whole cluster; 0: none.
  double restart_s = 5;
  double reshape_s = 6;  // A re-cut with the loading of models.
  double reshape_fail_probability = 0;
  double recall_s = 1;  // Until a lent slice is back.
};

// How one batch runs.
enum class RunEnd : std::uint8_t { done, failed, never };
struct RunDraw {
  std::int64_t real_ns = 0;
  RunEnd end = RunEnd::done;
};

// Draws noise and faults. Both have their own random streams, and a model that is off draws nothing. So faults do not
// change the noise, and a run without faults is the same as if faults did not exist.
class Disturbances {
 public:
  // The models outlive it.
  Disturbances(const NoiseModel& noise, const FaultModel& faults, const Rng& rng)
      : noise_(noise),
        faults_(faults),
        plain_(is_plain(noise, faults)),
        noise_rng_(rng.stream("noise")),
        fault_rng_(rng.stream("faults")) {}

  // How a batch with the predicted time `table_ns` really runs; it takes at least a nanosecond.
  RunDraw draw_run(std::int64_t table_ns) {
    return plain_ ? RunDraw{table_ns, RunEnd::done} : draw_disturbed_run(table_ns);
  }

  // Whether slices are lost at all, and how long it takes until the next one is.
  bool loses_slices() const { return faults_.slice_lost_mean_s > 0; }
  Duration draw_loss_gap();
  // Draws one of `count` slices. Requires at least one.
  std::uint32_t draw_victim(std::size_t count);
  bool draw_reshape_ok();

 private:
  // True if every batch takes exactly its predicted time and succeeds.
  static bool is_plain(const NoiseModel& noise, const FaultModel& faults);
  RunDraw draw_disturbed_run(std::int64_t table_ns);

  const NoiseModel& noise_;
  const FaultModel& faults_;
  const bool plain_;  // Every batch takes what the table says: most runs, so it is known beforehand.
  Rng noise_rng_;
  Rng fault_rng_;
};

}  // namespace tangram::sim

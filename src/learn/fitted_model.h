// The predictor that measurements become.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/latency_model.h"
#include "learn/candidate.h"
#include "learn/loading.h"
#include "learn/memory_belief.h"
#include "learn/models/analytic_fit.h"
#include "learn/models/boosted.h"
#include "learn/models/kriged.h"

namespace tangram::learn {

// Everything known of one run. The interval holds a new measurement of the mean with the stated coverage.
struct Estimate {
  double mean_ms = 0;
  double p99_ms = 0;
  double low_ms = 0;
  double high_ms = 0;
  double fits_probability = 1;       // That the run fits into the slice's memory.
  std::optional<double> memory_mib;  // Peak of all processes; nothing where no measurement said anything about memory.
  double throughput_per_s = 0;       // Samples a second, of all processes together.
  bool measured = false;             // The point was measured; the estimate is its measurement.
  bool beyond_slices = false;        // The slice is larger or smaller than all that were measured.
  bool guessed = false;              // No slice of this MigProfile was measured on this device type.
};

// How far the intervals can be trusted.
enum class Calibration {
  own,       // From the model's own measurements, left out one at a time.
  borrowed,  // Too few of its own: from the errors of other models.
  assumed,   // No other model either: a wide interval from the assumptions alone.
};

// The error of a fitted model at points that it was not fitted to.
struct CrossValidation {
  std::string member;       // "analytic", "kriged", "boosted", or what was chosen of them.
  double median_error = 0;  // Of |predicted / measured - 1|.
  double p90_error = 0;

  bool operator==(const CrossValidation&) const = default;
};

// A device type that was not measured is taken to behave as another one that was, only faster or slower.
struct Assumed {
  std::string from;      // The device type that was measured.
  double speed = 1;      // So many times as fast.
  double deviation = 0;  // Of the logarithm of `speed`: how far a model's own may be from it.

  bool operator==(const Assumed&) const = default;
};

// Beyond the measured slices, latency is known no better than this power of the size of the slice, even if all measured
// points lie on one curve: caches, clocks and launches bend it in ways that no point shows.
inline constexpr double kSliceDriftAssumed = 0.1;

// How many e-folds of compute or bandwidth `features` lies beyond all of `observations`; 0 within them.
double slices_beyond(std::span<const Observation> observations, const Features& features);

// The model of one target, as plain values: this is what a model file holds.
struct FittedRun {
  std::string device;
  std::string model;
  std::string kind = "blend";
  Measurements measured;  // What it was fitted to, out-of-memory runs included; measured points are answered exactly.
  AnalyticFit analytic;
  Kriged kriged;
  Boosted boosted;  // Empty where it was not used.
  // Shares of the members in the mean of log latency; they sum to one.
  double analytic_share = 0;
  double kriged_share = 1;
  double boosted_share = 0;
  // The half width of an interval is this many predicted deviations.
  double interval_deviations = 2;
  double coverage = 0.95;
  Calibration calibration = Calibration::assumed;
  // Deviation of log latency for each e-fold by which a slice lies beyond those that were measured; it is added to the
  // predicted deviation.
  double slice_drift = kSliceDriftAssumed;
  double p99_log_spread = 0.05;  // log(p99 / mean) of the runs themselves.
  MemoryBelief memory;
  std::vector<CrossValidation> validation;
  // If set, `device` was not measured: all else is of `assumed->from`.
  std::optional<Assumed> assumed = {};

  // The device type of the measurements.
  const std::string& measured_device() const { return assumed ? assumed->from : device; }
  // Nothing where the device has no such profile.
  std::optional<Estimate> estimate(const Candidate& candidate) const;

 private:
  std::optional<Estimate> estimate_measured(const Candidate& candidate) const;
};

// Models of any number of targets.
class FittedModel final : public LatencyModel {
 public:
  FittedModel() = default;
  explicit FittedModel(std::vector<FittedRun> runs);

  // Nothing if the run more probably fails for memory than not, or the target is unknown.
  std::optional<Prediction> predict(const RunPoint& point) const override;
  std::optional<Estimate> estimate(const RunPoint& point) const;
  // The column weights_mib, or else the fitted memory of a batch of none.
  std::optional<double> weights_mib(std::string_view device, std::string_view mig_profile,
                                    std::string_view model) const override;
  std::optional<Duration> load_time(std::string_view device, std::string_view mig_profile,
                                    std::string_view model) const override;

  const FittedRun* find(std::string_view device, std::string_view model) const;
  const std::vector<FittedRun>& runs() const { return runs_; }

 private:
  std::vector<FittedRun> runs_;
  LoadingTable loading_;
};

}  // namespace tangram::learn

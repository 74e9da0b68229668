// Measurements in, LatencyModel out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "learn/fitted_model.h"
#include "learn/knowledge.h"

namespace tangram::learn {

struct ModelKind {
  std::string_view name;
  std::string_view summary;
};
// In the order of models.def.
std::span<const ModelKind> model_kinds();

struct FitOptions {
  std::string kind = "blend";  // A name of models.def.
  double coverage = 0.95;      // Of the stated intervals.
  std::uint64_t seed = 1;      // Of the boosted trees' folds.
};

// With fewer measurements than this a model's own errors cannot support a 95 % interval: 19 of 20 need 19.
inline constexpr std::size_t kOwnCalibrationMin = 19;
inline constexpr std::size_t kMeasurementsMax = 200'000;

// The runs that fitted, as the formula sees them. Profiles that the device does not have are left out.
std::vector<Observation> observations_of(const Measurements& measurements);

// Errors of models that were seen before, in predicted deviations.
struct OthersErrors {
  std::vector<double> deviations;
  std::size_t models = 0;  // How many models they come from.
};

// The half width of an interval in predicted deviations, from errors in the same unit. Where a model has enough errors
// of its own for `coverage` (19 for 95 %, 99 for 99 %) they decide: from 57 on alone, before that together with those
// of other models. With fewer only the others count; however many errors a model shows, it is one draw among models, so
// what others lend grows as Student's quantile does with as many degrees of freedom as there are models. Where there
// are no others an assumption with heavy tails stands in for them, wider the fewer measurements there are. Own errors
// that a width misses more often than chance explains widen it until it holds them.
struct IntervalWidth {
  double deviations = 0;
  Calibration calibration = Calibration::assumed;
};
IntervalWidth interval_width(std::vector<double> own, OthersErrors others, double coverage);

// What `run` says of each of its observations (run.kriged.observations()) without having seen it: each left out alone
// where the smooth residual answers, otherwise in folds. At least two observations.
std::vector<Forecast> unseen_forecasts(const FittedRun& run);
// The errors of those forecasts in predicted deviations, without their signs; empty for a single observation.
std::vector<double> unseen_errors(const FittedRun& run);

// One target. An error if no measurement has a latency, because then there is nothing to learn but that memory ran out.
Result<FittedRun> fit_target(const Measurements& measurements, const Knowledge& knowledge, const FitOptions& options);

// All targets in `measurements`, with `slice_drift` from slices that are left out; each learns from the others as well
// as from `knowledge`. Targets of which no run fitted into memory are an error that names them.
Result<FittedModel> fit(const Measurements& measurements, const Knowledge& knowledge, const FitOptions& options);

}  // namespace tangram::learn

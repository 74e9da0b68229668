#include "learn/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "learn/detail/statistics.h"

namespace tangram::learn {
namespace {

// The usual inflation is 1; it counts as this many observations against the model's own.
constexpr double kInflationWeight = 10;
constexpr std::size_t kBorrowedMin = 100;  // Errors of other models, to say anything about 95 %.
constexpr double kAssumedDeviations = 3;   // Without any evidence.

std::vector<Observation> observations_of(const Measurements& measurements) {
  std::vector<Observation> observations;
  for (const auto& m : measurements) {
    if (m.out_of_memory()) continue;
    if (const auto features = features_of(m.device, candidate_of(m))) {
      observations.push_back({*features, math::log(*m.latency_ms)});
    }
  }
  return observations;
}

// The residual's covariance depends a little on where launching ends, which the fit decides: twice is enough.
AnalyticFit fit_formula(const std::vector<Observation>& observations, const AnalyticPrior& prior) {
  const double reference = size_reference_of(observations);
  AnalyticFit fitted{prior.mean, prior, reference};
  for (int round = 0; round < 2; ++round) {
    fitted = fit_analytic(observations, prior, reference, residual_factor(observations, fitted, {}));
  }
  return fitted;
}

std::vector<double> scaled_errors(const Kriged& kriged) {
  std::vector<double> errors;
  for (std::size_t i = 0; const auto& forecast : kriged.leave_one_out()) {
    errors.push_back((kriged.observations()[i++].log_ms - forecast.log_ms) / forecast.deviation);
  }
  return errors;
}

double inflation_of(const Kriged& kriged) {
  const auto errors = scaled_errors(kriged);
  double sum = kInflationWeight;
  for (const double e : errors) sum += std::min(e * e, 9.0);
  return std::sqrt(sum / (kInflationWeight + static_cast<double>(errors.size())));
}

// Intervals are as wide as the errors were where the model had not looked.
void calibrate(FittedRun& run, const Knowledge& knowledge, const FitOptions& options) {
  run.coverage = options.coverage;
  const std::size_t own = run.kriged.observations().size();
  std::vector<double> errors;
  if (own >= kOwnCalibrationMin) {
    for (const double e : scaled_errors(run.kriged)) errors.push_back(std::abs(e));
    run.calibration = Calibration::own;
  } else {
    for (const auto& error : knowledge.errors) errors.push_back(error.deviations);
    run.calibration = Calibration::borrowed;
    if (errors.size() < kBorrowedMin) {
      run.calibration = Calibration::assumed;
      run.interval_deviations = kAssumedDeviations;
      return;
    }
  }
  run.interval_deviations = detail::conformal_quantile(std::move(errors), options.coverage);
}

double p99_log_spread(const Measurements& measurements) {
  constexpr double kP99Deviations = 2.326;
  std::vector<double> spreads;
  for (const auto& m : measurements) {
    if (!m.latency_ms || !m.latency_spread_ms) continue;
    spreads.push_back(math::log(1 + kP99Deviations * *m.latency_spread_ms / *m.latency_ms));
  }
  return spreads.empty() ? 0.05 : detail::quantile(std::move(spreads), 0.5);
}

}  // namespace

Result<FittedRun> fit_target(const Measurements& measurements, const Knowledge& knowledge, const FitOptions& options) {
  const auto observations = observations_of(measurements);
  if (observations.empty()) {
    if (measurements.empty()) return Error{ErrorCode::invalid, "no measurements to learn from"};
    return Error{ErrorCode::invalid,
                 fmt::format("{} on {}: all {} measurements ran out of memory; there is no latency to learn from",
                             measurements[0].model, measurements[0].device, measurements.size())};
  }
  FittedRun run;
  run.device = measurements[0].device;
  run.model = measurements[0].model;
  run.kind = options.kind;
  run.measured = measurements;
  run.analytic = fit_formula(observations, prior_for(knowledge, target_of(measurements[0])));
  run.kriged = Kriged(run.analytic, {}, 1, observations);
  run.kriged = Kriged(run.analytic, {}, inflation_of(run.kriged), observations);
  calibrate(run, knowledge, options);
  run.p99_log_spread = p99_log_spread(measurements);
  std::vector<MemoryBelief> others;
  for (const auto& seen : knowledge.seen) others.push_back(seen.memory);
  run.memory = believe_memory(run.device, measurements, others);
  return run;
}

Result<FittedModel> fit(const Measurements& measurements, const Knowledge& knowledge, const FitOptions& options) {
  std::vector<FittedRun> runs;
  for (const auto& target : targets_of(measurements)) {
    auto run = fit_target(select(measurements, target), knowledge, options);
    if (!run) return run.error();
    runs.push_back(std::move(*run));
  }
  return FittedModel(std::move(runs));
}

}  // namespace tangram::learn

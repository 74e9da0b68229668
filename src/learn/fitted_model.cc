// Predictions of a fitted target. A measured point is answered by its measurement, any other by the mix of members that
// the fit chose. Intervals are computed on the logarithm, so they are asymmetric in milliseconds and never reach 0.

#include "learn/fitted_model.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "learn/assume.h"

namespace tangram::learn {
namespace {

// A run that more probably than not runs out of memory has no prediction.
constexpr double kFitsMin = 0.5;

// Linear in the measurements. Hot paths use DenseTable instead.
const Measurement* find_measured(const FittedRun& run, const Candidate& candidate) {
  const auto found = std::ranges::find_if(run.measured, [&](const auto& m) { return candidate_of(m) == candidate; });
  return found == run.measured.end() ? nullptr : &*found;
}

// The mean of the mix with the deviation of the Gaussian process, which is the only member that states one.
Forecast blended(const FittedRun& run, const Features& features) {
  const double analytic = run.analytic.log_ms(features);
  Forecast forecast = run.kriged.forecast(features);
  forecast.log_ms = run.analytic_share * analytic + run.kriged_share * forecast.log_ms +
                    run.boosted_share * (analytic + run.boosted.residual(features));
  return forecast;
}

void set_interval(Estimate& estimate, double log_ms, double half_width) {
  estimate.mean_ms = math::exp(log_ms);
  estimate.low_ms = math::exp(log_ms - half_width);
  estimate.high_ms = math::exp(log_ms + half_width);
}

// How far `value` lies outside of the values that `field` has in `observations`, as a logarithm.
double log_outside(std::span<const Observation> observations, double Features::*field, double value) {
  if (observations.empty()) return 0;
  double low = observations[0].features.*field;
  double high = low;
  for (const auto& o : observations) {
    low = std::min(low, o.features.*field);
    high = std::max(high, o.features.*field);
  }
  return std::max({0.0, math::log(value / high), math::log(low / value)});
}

}  // namespace

double slices_beyond(std::span<const Observation> observations, const Features& features) {
  return std::max(log_outside(observations, &Features::compute, features.compute),
                  log_outside(observations, &Features::bandwidth, features.bandwidth));
}

// An assumed device answers with the slice that comes nearest on the one that was measured. Its speed is a guess, whose
// error adds to that of the forecast.
std::optional<Estimate> FittedRun::estimate(const Candidate& candidate) const {
  if (!assumed) return estimate_measured(candidate);
  const auto profile = counterpart(device, candidate.mig_profile, assumed->from);
  if (!profile) return std::nullopt;
  Candidate there = candidate;
  there.mig_profile = *profile;
  auto estimate = estimate_measured(there);
  if (!estimate) return std::nullopt;
  const double log_ms = math::log(estimate->mean_ms / assumed->speed);
  const double speed_width = math::normal_quantile((1 + coverage) / 2) * assumed->deviation;
  const double p99_share = estimate->p99_ms / estimate->mean_ms;
  set_interval(*estimate, log_ms, std::hypot(math::log(estimate->high_ms / estimate->mean_ms), speed_width));
  estimate->p99_ms = estimate->mean_ms * p99_share;
  estimate->throughput_per_s *= assumed->speed;
  estimate->measured = false;
  estimate->guessed = true;
  return estimate;
}

std::optional<Estimate> FittedRun::estimate_measured(const Candidate& candidate) const {
  const auto features = features_of(measured_device(), candidate);
  if (!features) return std::nullopt;
  Estimate estimate;
  const Forecast forecast = blended(*this, *features);
  const double beyond = slices_beyond(kriged.observations(), *features);
  estimate.beyond_slices = beyond > 0;
  estimate.guessed =
      std::ranges::none_of(measured, [&](const auto& m) { return m.mig_profile == candidate.mig_profile; });
  // Beyond the measured slices the error of the forecast and the drift add as independent deviations.
  set_interval(estimate, forecast.log_ms, interval_deviations * std::hypot(forecast.deviation, slice_drift * beyond));
  estimate.fits_probability = memory.fits_probability(candidate);
  if (const Measurement* m = find_measured(*this, candidate)) {
    estimate.measured = true;
    estimate.fits_probability = m->out_of_memory() ? 0 : 1;
    if (m->latency_ms) {
      // A new measurement of the same point differs only by noise.
      const double noise = kriged.inflation() * kriged.scale().noise;
      set_interval(estimate, math::log(*m->latency_ms), interval_deviations * noise);
      // The exact number: the exponential of its logarithm may differ in the last digit.
      estimate.mean_ms = *m->latency_ms;
    }
  }
  estimate.p99_ms = estimate.mean_ms * math::exp(p99_log_spread);
  // Without a measured peak the belief only says what fits; its absolute numbers mean little.
  if (memory.measured) estimate.memory_mib = memory.mean_mib(candidate);
  estimate.throughput_per_s = 1e3 * static_cast<double>(candidate.batch * candidate.processes) / estimate.mean_ms;
  return estimate;
}

// Linear in the targets, of which a model file has few.
const FittedRun* FittedModel::find(std::string_view device, std::string_view model) const {
  const auto found =
      std::ranges::find_if(runs_, [&](const auto& run) { return run.device == device && run.model == model; });
  return found == runs_.end() ? nullptr : &*found;
}

std::optional<Estimate> FittedModel::estimate(const RunPoint& point) const {
  const FittedRun* run = find(point.device, point.model);
  if (run == nullptr) return std::nullopt;
  return run->estimate({std::string(point.mig_profile), point.batch, point.size, point.processes});
}

std::optional<Prediction> FittedModel::predict(const RunPoint& point) const {
  const auto found = estimate(point);
  if (!found || found->fits_probability < kFitsMin || !std::isfinite(found->p99_ms)) return std::nullopt;
  return Prediction{from_milliseconds(found->mean_ms), from_milliseconds(found->p99_ms), found->memory_mib};
}

FittedModel::FittedModel(std::vector<FittedRun> runs) : runs_(std::move(runs)) {
  Measurements measured;
  for (const auto& run : runs_) measured.insert(measured.end(), run.measured.begin(), run.measured.end());
  loading_ = LoadingTable(measured);
}

std::optional<double> FittedModel::weights_mib(std::string_view device, std::string_view mig_profile,
                                               std::string_view model) const {
  if (const auto column = loading_.weights_mib(device, mig_profile, model)) return column;
  const FittedRun* run = find(device, model);
  if (run == nullptr || !run->memory.measured) return std::nullopt;
  double base_mib = 0;
  for (std::size_t i = 0; i < run->memory.guesses.size(); ++i) {
    base_mib += run->memory.weights[i] * run->memory.guesses[i].base_mib;
  }
  if (base_mib > 0) return base_mib;
  return loading_.memory_least_mib(device, model);
}

std::optional<Duration> FittedModel::load_time(std::string_view device, std::string_view mig_profile,
                                               std::string_view model) const {
  return loading_.load_time(device, mig_profile, model);
}

}  // namespace tangram::learn

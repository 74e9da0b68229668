#include "learn/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/check.h"
#include "base/math.h"
#include "base/rng.h"
#include "learn/statistics.h"

namespace tangram::learn {
namespace {

// The usual inflation is 1; it counts as this many observations against the model's own.
constexpr double kInflationWeight = 10;
constexpr std::size_t kOthersMin = 40;    // Errors of other models, to say anything about 95 %.
constexpr double kAssumedDeviations = 3;  // Half width without any evidence.
constexpr double kCountTolerance = 0.1;   // Of the logarithm of a number of measurements.
constexpr std::size_t kFolds = 4;
constexpr std::uint64_t kFoldSeed = 1;
constexpr std::size_t kBlendMin = 24;  // Fewer cannot be divided into folds that say anything.
constexpr double kBlendMargin = 0.9;

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

// The errors of other models that had about as many measurements.
OthersErrors errors_near(const Knowledge& knowledge, std::size_t measurements) {
  const auto away = [&](std::size_t count) {
    return std::abs(math::log(static_cast<double>(count) / static_cast<double>(measurements)));
  };
  double nearest = std::numeric_limits<double>::infinity();
  for (const auto& error : knowledge.errors) nearest = std::min(nearest, away(error.measurements));
  OthersErrors errors;
  std::set<std::string_view> models;
  for (const auto& error : knowledge.errors) {
    if (away(error.measurements) > nearest + kCountTolerance) continue;
    errors.deviations.push_back(error.deviations);
    models.insert(error.model);
  }
  errors.models = models.size();
  return errors;
}

// Student's 97.5 % quantile over the normal one, by degrees of freedom; 1 + 1.3 / n is within 1 % of it from 11 on.
double student_factor(std::size_t degrees) {
  constexpr std::array kFactors{6.48, 2.20, 1.62, 1.42, 1.31, 1.25, 1.21, 1.18, 1.15, 1.14};
  TANGRAM_CHECK(degrees > 0, "errors come from a model");
  return degrees <= kFactors.size() ? kFactors[degrees - 1] : 1 + 1.3 / static_cast<double>(degrees);
}

void calibrate(FittedRun& run, const Knowledge& knowledge, double coverage) {
  const std::size_t count = run.kriged.observations().size();
  std::vector<double> own;
  if (count >= kOwnCalibrationMin) {
    for (const double e : scaled_errors(run.kriged)) own.push_back(std::abs(e));
  }
  const auto width = interval_width(std::move(own), errors_near(knowledge, count), coverage);
  run.coverage = coverage;
  run.interval_deviations = width.deviations;
  run.calibration = width.calibration;
}

// What the members of a blend predict for observations that they have not seen.
struct Unseen {
  std::vector<std::size_t> index;  // Of the observation.
  std::vector<double> observed;
  std::vector<double> analytic;
  std::vector<double> kriged;
  std::vector<double> boosted;
};

Unseen cross_validate(const std::vector<Observation>& observations, const AnalyticPrior& prior, std::uint64_t seed) {
  std::vector<std::size_t> order(observations.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  Rng rng = Rng(seed).stream("folds");
  rng.shuffle(order);
  Unseen unseen;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<Observation> seen;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i % kFolds != fold) seen.push_back(observations[order[i]]);
    }
    if (seen.empty()) continue;
    const AnalyticFit analytic = fit_formula(seen, prior);
    const Kriged kriged(analytic, {}, 1, seen);
    const Boosted boosted = fit_boosted(seen, analytic, seed);
    for (std::size_t i = fold; i < order.size(); i += kFolds) {
      const Observation& o = observations[order[i]];
      unseen.index.push_back(order[i]);
      unseen.observed.push_back(o.log_ms);
      unseen.analytic.push_back(analytic.log_ms(o.features));
      unseen.kriged.push_back(kriged.forecast(o.features).log_ms);
      unseen.boosted.push_back(unseen.analytic.back() + boosted.residual(o.features));
    }
  }
  return unseen;
}

struct Shares {
  std::string_view name;
  double analytic = 0;
  double kriged = 0;
  double boosted = 0;
};
constexpr std::array kMixes{
    Shares{"kriged", 0, 1, 0},
    Shares{"analytic", 1, 0, 0},
    Shares{"boosted", 0, 0, 1},
    Shares{"kriged and boosted", 0, 0.5, 0.5},
};

CrossValidation judge(const Unseen& unseen, const Shares& shares) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < unseen.observed.size(); ++i) {
    const double mean =
        shares.analytic * unseen.analytic[i] + shares.kriged * unseen.kriged[i] + shares.boosted * unseen.boosted[i];
    errors.push_back(std::abs(math::exp(mean - unseen.observed[i]) - 1));
  }
  return {std::string(shares.name), quantile(errors, 0.5), quantile(errors, 0.9)};
}

void use(FittedRun& run, const Shares& shares) {
  run.analytic_share = shares.analytic;
  run.kriged_share = shares.kriged;
  run.boosted_share = shares.boosted;
}

// The first mix is the usual one; another must be better by a margin that chance does not explain.
void blend(FittedRun& run, const std::vector<Observation>& observations, std::uint64_t seed) {
  if (observations.size() < kBlendMin) return;
  const Unseen unseen = cross_validate(observations, run.analytic.prior, seed);
  const auto score = [](const CrossValidation& v) { return v.median_error + 0.5 * v.p90_error; };
  std::size_t best = 0;
  for (std::size_t i = 0; i < kMixes.size(); ++i) {
    run.validation.push_back(judge(unseen, kMixes[i]));
    if (score(run.validation[i]) < kBlendMargin * score(run.validation[best])) best = i;
  }
  use(run, kMixes[best]);
}

void choose_members(FittedRun& run, const std::vector<Observation>& observations, const FitOptions& options) {
  if (options.kind == "analytic") return use(run, kMixes[1]);
  if (options.kind == "boosted") use(run, kMixes[2]);
  if (options.kind == "blend") blend(run, observations, options.seed);
  if (run.boosted_share > 0) run.boosted = fit_boosted(observations, run.analytic, options.seed);
}

double p99_log_spread(const Measurements& measurements) {
  constexpr double kP99Deviations = 2.326;
  std::vector<double> spreads;
  for (const auto& m : measurements) {
    if (!m.latency_ms || !m.latency_spread_ms) continue;
    spreads.push_back(math::log(1 + kP99Deviations * *m.latency_spread_ms / *m.latency_ms));
  }
  return spreads.empty() ? 0.05 : quantile(std::move(spreads), 0.5);
}

}  // namespace

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

std::span<const ModelKind> model_kinds() {
  static constexpr std::array kinds{
#define TANGRAM_FITTED_MODEL(name, summary) ModelKind{#name, summary},
#include "learn/models/models.def"
#undef TANGRAM_FITTED_MODEL
  };
  return kinds;
}

IntervalWidth interval_width(std::vector<double> own, OthersErrors others, double coverage) {
  const bool borrow = others.deviations.size() >= kOthersMin;
  const bool enough = own.size() >= kOwnCalibrationMin;
  if (!borrow && !enough) return {kAssumedDeviations, Calibration::assumed};
  double borrowed = kAssumedDeviations;
  if (borrow) borrowed = student_factor(others.models) * conformal_quantile(std::move(others.deviations), coverage);
  if (!enough) return {borrowed, Calibration::borrowed};
  const double alone = conformal_quantile(std::move(own), coverage);
  return {(alone + borrowed) / 2, Calibration::own};
}

std::vector<Forecast> unseen_forecasts(const FittedRun& run) {
  auto forecasts = run.kriged.leave_one_out();
  if (run.kriged_share == 1) return forecasts;
  const Unseen unseen = cross_validate(run.kriged.observations(), run.analytic.prior, kFoldSeed);
  for (std::size_t i = 0; i < unseen.index.size(); ++i) {
    forecasts[unseen.index[i]].log_ms = run.analytic_share * unseen.analytic[i] + run.kriged_share * unseen.kriged[i] +
                                        run.boosted_share * unseen.boosted[i];
  }
  return forecasts;
}

Result<FittedRun> fit_target(const Measurements& measurements, const Knowledge& knowledge, const FitOptions& options) {
  const auto observations = thinned(observations_of(measurements));
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
  choose_members(run, observations, options);
  calibrate(run, knowledge, options.coverage);
  run.p99_log_spread = p99_log_spread(measurements);
  std::vector<MemoryBelief> others;
  for (const auto& seen : knowledge.seen) others.push_back(seen.memory);
  run.memory = believe_memory(run.device, measurements, others);
  return run;
}

Result<FittedModel> fit(const Measurements& measurements, const Knowledge& knowledge, const FitOptions& options) {
  if (measurements.empty()) return Error{ErrorCode::invalid, "no measurements to learn from"};
  if (measurements.size() > kMeasurementsMax) {
    return Error{ErrorCode::exhausted,
                 fmt::format("{} measurements; at most {} can be learnt from", measurements.size(), kMeasurementsMax)};
  }
  Knowledge all = know(measurements);
  for (const auto& seen : knowledge.seen) all.seen.push_back(seen);
  all.features = knowledge.features;
  learn_errors(all, measurements);
  for (const auto& error : knowledge.errors) all.errors.push_back(error);
  std::vector<FittedRun> runs;
  for (const auto& target : targets_of(measurements)) {
    auto run = fit_target(select(measurements, target), without(all, target), options);
    if (!run) return run.error();
    runs.push_back(std::move(*run));
  }
  return FittedModel(std::move(runs));
}

}  // namespace tangram::learn

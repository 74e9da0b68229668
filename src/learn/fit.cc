// Fitting one target takes four steps. (1) The formula is fitted, with a prior from other models. (2) A Gaussian
// process models what the residuals have in common. (3) With enough data, cross-validation may choose boosted trees or
// a mix instead. (4) The width of the intervals is calibrated on errors at points that the forecast leaves out.
//
// Everything is computed on the logarithm of the latency, because errors of latency are proportional to it. Example: an
// interval of 2 deviations of 0.1 means a factor of e^0.2, about 22 % up.
//
// Invariant: own errors that set the width of an interval come from forecasts that leave the point out. Errors on the
// training points would make every interval too narrow.

#include "learn/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "base/check.h"
#include "base/math.h"
#include "base/rng.h"
#include "learn/contradictions.h"
#include "learn/statistics.h"

namespace tangram::learn {
namespace {

// The usual inflation is 1; it counts as this many observations against the model's own.
constexpr double kInflationWeight = 10;
constexpr std::size_t kOthersMin = 40;  // Errors of other models, to say anything about 95 %.
// Without any evidence errors are taken to have the tails of Student's distribution with this many degrees of freedom.
constexpr std::size_t kAssumedDegrees = 2;
// Of the logarithm of a number of measurements: runs out of memory leave up to a third fewer.
constexpr double kCountTolerance = 0.35;
// With this many errors of its own, a model ignores the errors of other models. The errors are of points that a sampler
// chose, not of random points, so they say a little less about the rest than their number suggests.
constexpr double kOwnAlone = 3 * static_cast<double>(kOwnCalibrationMin);
// A number of misses that is less probable than this is not chance: the interval is too narrow.
constexpr double kMissesProbable = 0.05;
constexpr double kSliceDriftMax = 2;             // As if latency could grow with the slice as fast as it should fall.
constexpr double kIntervalDeviationsMax = 1000;  // Beyond it every interval is everything.
// Four folds train on three quarters of the points; the seed is fixed, so that forecasts for unseen points repeat.
constexpr std::size_t kFolds = 4;
constexpr std::uint64_t kFoldSeed = 1;
constexpr std::size_t kBlendMin = 24;  // Fewer cannot be divided into folds that say anything.
// A mix must lower the score of the default by a tenth to replace it.
constexpr double kBlendMargin = 0.9;

// The whitening depends on where launch time gives way to work, which only the fit shows. The dependence is weak, so
// two rounds are enough.
AnalyticFit fit_formula(const std::vector<Observation>& observations, const AnalyticPrior& prior) {
  const double reference = size_reference_of(observations);
  AnalyticFit fitted{prior.mean, prior, reference};
  for (int round = 0; round < 2; ++round) {
    fitted = fit_analytic(observations, prior, reference, residual_factor(observations, fitted, {}));
  }
  return fitted;
}

// The error of each observation when it is left out, in units of the deviation that was predicted for it.
std::vector<double> scaled_errors(const Kriged& kriged) {
  std::vector<double> errors;
  for (std::size_t i = 0; const auto& forecast : kriged.leave_one_out()) {
    errors.push_back((kriged.observations()[i++].log_ms - forecast.log_ms) / forecast.deviation);
  }
  return errors;
}

// The factor on all predicted deviations: the root mean square of the scaled errors, shrunk towards 1. An error counts
// for at most three deviations, so that one outlier does not widen every interval.
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
  // The count of measurements may match none exactly: take the nearest count and everything within the tolerance of it.
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

// The errors of one model are alike, so what counts is the number of models, not of errors. This is how much wider a
// normal quantile must be for so few models.
double student_factor(double coverage, std::size_t models) {
  TANGRAM_CHECK(models > 0, "errors come from a model");
  return student_quantile(coverage, models) / math::normal_quantile((1 + coverage) / 2);
}

// True if the conformal quantile for `coverage` is one of the errors and not beyond the largest: 19 for 95 %. The
// tolerance absorbs the rounding of the product.
bool enough_for(std::size_t errors, double coverage) {
  constexpr double kRounding = 1e-9;
  const auto count = static_cast<double>(errors);
  return errors >= kOwnCalibrationMin && (count + 1) * coverage <= count + kRounding;
}

// Half at kOwnCalibrationMin, all at kOwnAlone.
double own_share(std::size_t errors) {
  const auto count = static_cast<double>(errors);
  const auto fewest = static_cast<double>(kOwnCalibrationMin);
  return std::min(1.0, 0.5 + 0.5 * (count - fewest) / (kOwnAlone - fewest));
}

// The width that the errors of other models suggest; nullopt if there are too few of them.
std::optional<double> borrowed_width(OthersErrors others, double coverage) {
  if (others.deviations.size() < kOthersMin) return std::nullopt;
  return student_factor(coverage, others.models) * conformal_quantile(std::move(others.deviations), coverage);
}

// The width without any evidence. Heavy tails, because they show only in many errors, and wider while the deviations
// themselves rest on few measurements: three times for one, 1.4 times for five.
double assumed_width(std::size_t errors, double coverage) {
  const auto count = static_cast<double>(std::max<std::size_t>(errors, 1));
  return (1 + 2 / count) * student_quantile(coverage, kAssumedDegrees);
}

// True if a width misses more of the model's own errors than chance explains.
bool misses_too_often(const std::vector<double>& own, double width, double coverage) {
  const auto misses = static_cast<std::size_t>(std::ranges::count_if(own, [&](double e) { return e > width; }));
  return misses > 0 && misses_probability(misses, own.size(), coverage) < kMissesProbable;
}

// Requires the members to be chosen, because the errors depend on them. Sets coverage, width and its source.
void calibrate(FittedRun& run, const Knowledge& knowledge, double coverage) {
  const std::size_t count = run.kriged.observations().size();
  const auto width = interval_width(unseen_errors(run), errors_near(knowledge, count), coverage);
  run.coverage = coverage;
  run.interval_deviations = width.deviations;
  run.calibration = width.calibration;
}

// Fits on `kept`, predicts `left_out`, and returns for each prediction the smallest drift with which the interval would
// have held it. The drift is the growth of the deviation with the logarithmic distance to the nearest measured slice.
std::vector<double> drifts_of(const FittedRun& run, const std::vector<Observation>& kept,
                              const std::vector<Observation>& left_out) {
  const AnalyticFit analytic = fit_formula(kept, run.analytic.prior);
  const Kriged kriged(analytic, {}, run.kriged.inflation(), kept);
  std::vector<double> drifts;
  for (const auto& o : left_out) {
    const Forecast forecast = kriged.forecast(o.features);
    const double error = std::abs(o.log_ms - forecast.log_ms) / run.interval_deviations;
    // The predicted deviation explains part of the error; only the rest is charged to the distance.
    const double missing = std::max(0.0, error * error - forecast.deviation * forecast.deviation);
    drifts.push_back(std::sqrt(missing) / slices_beyond(kept, o.features));
  }
  return drifts;
}

// Calibrates extrapolation to slices beyond those measured. Leaves the largest slice out, then the smallest, and uses
// the error there as the error to expect beyond all of them. Each needs another slice to predict from.
void calibrate_slices(FittedRun& run) {
  const auto& observations = run.kriged.observations();
  const auto by_compute = [](const Observation& o) { return o.features.compute; };
  const auto [least, most] = std::ranges::minmax(observations, {}, by_compute);
  for (const double end : {least.features.compute, most.features.compute}) {
    std::vector<Observation> kept;
    std::vector<Observation> left_out;
    for (const auto& o : observations) (o.features.compute == end ? left_out : kept).push_back(o);
    if (kept.empty() || left_out.empty()) continue;
    auto drifts = drifts_of(run, kept, left_out);
    // With too few errors for a quantile the largest one is the cautious choice.
    const double share = enough_for(drifts.size(), run.coverage) ? run.coverage : 1;
    const double drift = share < 1 ? conformal_quantile(std::move(drifts), share) : std::ranges::max(drifts);
    run.slice_drift = std::min(kSliceDriftMax, std::max(run.slice_drift, drift));
  }
}

// The predictions of the members of a blend for observations that they have not seen.
struct Unseen {
  std::vector<std::size_t> index;  // Of the observation.
  std::vector<double> observed;
  std::vector<double> analytic;
  std::vector<double> kriged;
  std::vector<double> boosted;
};

// Each observation is predicted once, by models fitted without its fold. Cost: kFolds complete fits.
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
    // The formula is fitted again without the fold. Reusing the fit of all points would leak the answer.
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

// Median and 90th percentile of the relative error of a mix.
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

// Chooses the mix by cross-validation. The first mix is the default; another must score 10 % better, because the
// difference of two scores from few points is mostly chance. The score includes the 90th percentile, so that a mix with
// rare but large errors does not win by its median.
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

// Leaves the default, the Gaussian process alone, for kind "kriged" and for a blend with too few points.
void choose_members(FittedRun& run, const std::vector<Observation>& observations, const FitOptions& options) {
  const bool too_few_for_trees = observations.size() < kBoostedMin;
  if (options.kind == "analytic" || (options.kind == "boosted" && too_few_for_trees)) return use(run, kMixes[1]);
  if (options.kind == "boosted") use(run, kMixes[2]);
  if (options.kind == "blend") blend(run, observations, options.seed);
  if (run.boosted_share > 0) run.boosted = fit_boosted(observations, run.analytic, options.seed);
}

// The logarithm of p99 over mean, taking runs as normal around their mean; the median over all points that state a
// spread. Without any stated spread, 5 %.
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
  // Three cases: enough own errors decide, mixed with borrowed ones up to kOwnAlone; otherwise borrowed or assumed
  // errors; and own errors override either if the width demonstrably misses too many of them.
  const std::optional<double> borrowed = borrowed_width(std::move(others), coverage);
  const double assumed = assumed_width(own.size(), coverage);
  if (enough_for(own.size(), coverage)) {
    const double share = own_share(own.size());
    const double alone = conformal_quantile(own, coverage);
    const double width = share * alone + (1 - share) * borrowed.value_or(assumed);
    return {misses_too_often(own, width, coverage) ? std::max(alone, width) : width, Calibration::own};
  }
  const double width = borrowed.value_or(assumed);
  if (misses_too_often(own, width, coverage)) {
    return {conformal_quantile(std::move(own), coverage), Calibration::own};
  }
  return {width, borrowed ? Calibration::borrowed : Calibration::assumed};
}

std::vector<Forecast> unseen_forecasts(const FittedRun& run) {
  auto forecasts = run.kriged.leave_one_out();
  // The Gaussian process has a closed form for leaving one out. For a mix the mean comes from folds instead; the
  // deviation is that of the Gaussian process in both cases.
  if (run.kriged_share == 1) return forecasts;
  const Unseen unseen = cross_validate(run.kriged.observations(), run.analytic.prior, kFoldSeed);
  for (std::size_t i = 0; i < unseen.index.size(); ++i) {
    forecasts[unseen.index[i]].log_ms = run.analytic_share * unseen.analytic[i] + run.kriged_share * unseen.kriged[i] +
                                        run.boosted_share * unseen.boosted[i];
  }
  return forecasts;
}

std::vector<double> unseen_errors(const FittedRun& run) {
  const auto& observations = run.kriged.observations();
  std::vector<double> errors;
  if (observations.size() < 2) return errors;
  for (std::size_t i = 0; const auto& forecast : unseen_forecasts(run)) {
    errors.push_back(std::abs(observations[i++].log_ms - forecast.log_ms) / forecast.deviation);
  }
  return errors;
}

namespace {

// Widens the interval if some latencies contradict each other, for example because of mixed units. The fit then lies
// between two clusters of points, and errors borrowed from other models, which have no such contradiction, must not
// make the interval narrower than the model's own errors require.
void widen_for_mismatches(FittedRun& run) {
  if (mismatches_of(run.measured).empty()) return;
  auto errors = unseen_errors(run);
  if (errors.empty()) return;
  const double alone = conformal_quantile(std::move(errors), run.coverage);
  if (alone <= run.interval_deviations) return;
  run.interval_deviations = std::min(alone, kIntervalDeviationsMax);
  run.calibration = Calibration::own;
}

}  // namespace

Result<FittedRun> fit_target(const Measurements& measurements, const Knowledge& knowledge, const FitOptions& options) {
  const auto observations = thinned(observations_of(measurements));
  if (observations.empty()) {
    if (measurements.empty()) return Error{ErrorCode::invalid, "there are no measurements to learn from"};
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
  // Twice: the errors of the first, at inflation 1, determine the inflation of the second.
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
  if (measurements.empty()) return Error{ErrorCode::invalid, "there are no measurements to learn from"};
  if (measurements.size() > kMeasurementsMax) {
    return Error{ErrorCode::exhausted,
                 fmt::format("{} measurements are too many; the limit is {}", measurements.size(), kMeasurementsMax)};
  }
  // Targets learn from each other. Each fit then runs without its own target, since a target that learns from itself
  // would be too sure.
  Knowledge all = know(measurements);
  for (const auto& seen : knowledge.seen) all.seen.push_back(seen);
  all.features = knowledge.features;
  learn_errors(all, measurements);
  for (const auto& error : knowledge.errors) all.errors.push_back(error);
  std::vector<FittedRun> runs;
  for (const auto& target : targets_of(measurements)) {
    TANGRAM_TRY(auto run, fit_target(select(measurements, target), without(all, target), options));
    widen_for_mismatches(run);
    calibrate_slices(run);
    runs.push_back(std::move(run));
  }
  return FittedModel(std::move(runs));
}

}  // namespace tangram::learn

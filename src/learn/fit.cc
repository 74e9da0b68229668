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
// From so many own errors on nobody else's count. Fewer were chosen by a sampler rather than by chance, so they say a
// little less about the rest than their number does.
constexpr double kOwnAlone = 3 * static_cast<double>(kOwnCalibrationMin);
// Misses of own errors that are less probable than this are no chance.
constexpr double kMissesProbable = 0.05;
constexpr double kSliceDriftMax = 2;             // As if latency could grow with the slice as fast as it should fall.
constexpr double kIntervalDeviationsMax = 1000;  // Beyond it every interval is everything.
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

// A quantile of very many errors holds for a normal one; this is how much wider it must be for so few models.
double student_factor(double coverage, std::size_t models) {
  TANGRAM_CHECK(models > 0, "errors come from a model");
  return student_quantile(coverage, models) / math::normal_quantile((1 + coverage) / 2);
}

// So many errors have a conformal quantile of this coverage that is one of them: 19 for 95 %.
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

// What the errors of other models say, where there are enough of them.
std::optional<double> borrowed_width(OthersErrors others, double coverage) {
  if (others.deviations.size() < kOthersMin) return std::nullopt;
  return student_factor(coverage, others.models) * conformal_quantile(std::move(others.deviations), coverage);
}

// What stands in for that. Heavy tails, because they show only when many errors are seen, and wider while the
// deviations themselves rest on few measurements: three times for one, 1.4 times for five.
double assumed_width(std::size_t errors, double coverage) {
  const auto count = static_cast<double>(std::max<std::size_t>(errors, 1));
  return (1 + 2 / count) * student_quantile(coverage, kAssumedDegrees);
}

// A width that misses more of the model's own errors than chance explains.
bool misses_too_often(const std::vector<double>& own, double width, double coverage) {
  const auto misses = static_cast<std::size_t>(std::ranges::count_if(own, [&](double e) { return e > width; }));
  return misses > 0 && misses_probability(misses, own.size(), coverage) < kMissesProbable;
}

void calibrate(FittedRun& run, const Knowledge& knowledge, double coverage) {
  const std::size_t count = run.kriged.observations().size();
  const auto width = interval_width(unseen_errors(run), errors_near(knowledge, count), coverage);
  run.coverage = coverage;
  run.interval_deviations = width.deviations;
  run.calibration = width.calibration;
}

// What `kept` says of the runs in `left_out`, as the drift with which the interval would just hold each.
std::vector<double> drifts_of(const FittedRun& run, const std::vector<Observation>& kept,
                              const std::vector<Observation>& left_out) {
  const AnalyticFit analytic = fit_formula(kept, run.analytic.prior);
  const Kriged kriged(analytic, {}, run.kriged.inflation(), kept);
  std::vector<double> drifts;
  for (const auto& o : left_out) {
    const Forecast forecast = kriged.forecast(o.features);
    const double error = std::abs(o.log_ms - forecast.log_ms) / run.interval_deviations;
    const double missing = std::max(0.0, error * error - forecast.deviation * forecast.deviation);
    drifts.push_back(std::sqrt(missing) / slices_beyond(kept, o.features));
  }
  return drifts;
}

// Leaves the largest slices out, then the smallest, and looks how far the others are from telling them: what happened
// there is taken to happen beyond all of them too.
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
    const double share = enough_for(drifts.size(), run.coverage) ? run.coverage : 1;
    const double drift = share < 1 ? conformal_quantile(std::move(drifts), share) : std::ranges::max(drifts);
    run.slice_drift = std::min(kSliceDriftMax, std::max(run.slice_drift, drift));
  }
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
  const bool too_few_for_trees = observations.size() < kBoostedMin;
  if (options.kind == "analytic" || (options.kind == "boosted" && too_few_for_trees)) return use(run, kMixes[1]);
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

// Latencies that no work explains come in heaps, of which the fit lies in the midst: then nothing that others lend may
// narrow what the model's own errors ask for.
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
    TANGRAM_TRY(auto run, fit_target(select(measurements, target), without(all, target), options));
    widen_for_mismatches(run);
    calibrate_slices(run);
    runs.push_back(std::move(run));
  }
  return FittedModel(std::move(runs));
}

}  // namespace tangram::learn

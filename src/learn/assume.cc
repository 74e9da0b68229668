// The speed of a device relative to another is taken from runs that were measured on the first and are predicted for
// the second. Logarithms of the ratios are averaged; their spread says how far the next ratio may be off.
#include "learn/assume.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "base/text.h"
#include "core/geometry.h"
#include "learn/statistics.h"

namespace tangram::learn {
namespace {

constexpr double kSpeedMin = 0.01;
constexpr double kSpeedMax = 100;
// What the width of a normal interval at 95 % is in deviations; few points have a wider one.
constexpr double kNormalWidth = 1.96;

Result<std::string> known_gpu(std::string_view text) {
  const auto name = text::trim(text);
  const Geometry* geometry = find_geometry(name);
  if (geometry != nullptr && geometry->units_per_core == 0) return std::string(name);
  return Error{ErrorCode::invalid,
               fmt::format("--assume: \"{}\" is no GPU type; tangram geometry lists the types", name)};
}

// Logarithms of predicted over measured times: of the runs on `device`, as predicted for `from`.
std::vector<double> log_ratios(const FittedRun& own, const FittedRun& base) {
  std::vector<double> ratios;
  for (const auto& m : own.measured) {
    const auto profile = counterpart(own.device, m.mig_profile, base.device);
    if (!m.latency_ms || !profile) continue;
    Candidate there = candidate_of(m);
    there.mig_profile = *profile;
    const auto estimate = base.estimate(there);
    if (estimate && std::isfinite(estimate->mean_ms)) ratios.push_back(math::log(estimate->mean_ms / *m.latency_ms));
  }
  return ratios;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Requires at least two ratios.
Assumed speed_of(const std::vector<double>& ratios, const std::string& from) {
  const double mean = mean_of(ratios);
  double squares = 0;
  for (const double ratio : ratios) squares += (ratio - mean) * (ratio - mean);
  const auto n = static_cast<double>(ratios.size());
  // Of one more ratio, when mean and spread are themselves known from n of them only.
  const double deviation =
      std::sqrt(squares / (n - 1) * (1 + 1 / n)) * student_quantile(0.95, ratios.size() - 1) / kNormalWidth;
  return {from, math::exp(mean), std::max(kSpeedDeviationLeast, deviation)};
}

FittedRun assumed_run(const FittedRun& base, const std::string& device, const Assumed& assumed) {
  FittedRun run = base;
  run.device = device;
  run.assumed = assumed;
  run.calibration = Calibration::assumed;
  return run;
}

}  // namespace

Result<Assumption> parse_assumption(std::string_view text) {
  const auto equals = text.find('=');
  const auto star = text.find('*');
  if (equals == std::string_view::npos || (star != std::string_view::npos && star < equals)) {
    return Error{ErrorCode::invalid,
                 fmt::format("--assume: expected h100-80gb=a100-80gb*1.7 or h100-80gb=a100-80gb, found \"{}\"", text)};
  }
  Assumption assumption;
  TANGRAM_TRY(assumption.device, known_gpu(text.substr(0, equals)));
  TANGRAM_TRY(assumption.from,
              known_gpu(text.substr(equals + 1, star == std::string_view::npos ? star : star - equals - 1)));
  if (assumption.device == assumption.from) {
    return Error{ErrorCode::invalid, fmt::format("--assume: {} is both sides", assumption.device)};
  }
  if (star == std::string_view::npos) return assumption;
  const auto factor = text::parse_number(text::trim(text.substr(star + 1)));
  if (!factor || !(*factor >= kSpeedMin && *factor <= kSpeedMax)) {
    return Error{ErrorCode::invalid, fmt::format("--assume: expected a factor from {} to {} after *, found \"{}\"",
                                                 kSpeedMin, kSpeedMax, text.substr(star + 1))};
  }
  assumption.speed = *factor;
  return assumption;
}

std::optional<std::string> counterpart(std::string_view device, std::string_view mig_profile, std::string_view other) {
  const Geometry* geometry = find_geometry(device);
  const Geometry* there = find_geometry(other);
  if (geometry == nullptr || there == nullptr) return std::nullopt;
  const auto index = find_profile(*geometry, mig_profile);
  if (!index) return std::nullopt;
  const MigProfile& profile = geometry->profiles[*index];
  const double share = static_cast<double>(profile.units) / geometry->units;
  const MigProfile* best = nullptr;
  double best_distance = 0;
  for (const auto& candidate : there->profiles) {
    if (candidate.compute_slices != profile.compute_slices || candidate.family != profile.family) continue;
    const double distance = std::abs(static_cast<double>(candidate.units) / there->units - share);
    if (best == nullptr || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? std::nullopt : std::optional(best->name);
}

Result<std::vector<AssumedSpeed>> assume(const Assumption& assumption, FittedModel& model) {
  std::vector<FittedRun> runs;
  std::vector<AssumedSpeed> speeds;
  std::vector<double> all;
  for (const auto& base : model.runs()) {
    const FittedRun* own = base.device == assumption.from ? model.find(assumption.device, base.model) : nullptr;
    if (own == nullptr) continue;
    const auto ratios = log_ratios(*own, base);
    all.insert(all.end(), ratios.begin(), ratios.end());
  }
  const auto of_all = [&]() -> Result<AssumedSpeed> {
    if (assumption.speed) return AssumedSpeed{{assumption.from, *assumption.speed, kSpeedDeviationStated}, 0, {}};
    if (all.size() >= kSpeedPointsMin) return AssumedSpeed{speed_of(all, assumption.from), all.size(), {}};
    return Error{
        ErrorCode::invalid,
        fmt::format("--assume: {} measurements on {} of models that were measured on {} say too little; measure "
                    "{}, or state a factor: --assume {}={}*1.7",
                    all.size(), assumption.device, assumption.from, kSpeedPointsMin, assumption.device,
                    assumption.from)};
  };
  TANGRAM_TRY(auto shared, of_all());
  for (const auto& base : model.runs()) {
    if (base.device != assumption.from) continue;
    const FittedRun* own = model.find(assumption.device, base.model);
    if (own != nullptr && own->measured.size() >= kOwnPointsMin) continue;
    const auto ratios = own == nullptr ? std::vector<double>() : log_ratios(*own, base);
    if (!assumption.speed && ratios.size() >= kSpeedPointsMin) {
      speeds.push_back({speed_of(ratios, assumption.from), ratios.size(), {base.model}});
      runs.push_back(assumed_run(base, assumption.device, speeds.back().assumed));
    } else {
      shared.models.push_back(base.model);
      runs.push_back(assumed_run(base, assumption.device, shared.assumed));
    }
  }
  if (runs.empty()) {
    return Error{ErrorCode::invalid,
                 fmt::format("--assume: nothing is to be assumed: no model was measured on {} only", assumption.from)};
  }
  if (!shared.models.empty()) speeds.push_back(std::move(shared));
  // Own measurements that were too few are what the speed was taken from.
  for (const auto& run : model.runs()) {
    const bool replaced = std::ranges::any_of(
        runs, [&](const FittedRun& added) { return added.device == run.device && added.model == run.model; });
    if (!replaced) runs.push_back(run);
  }
  model = FittedModel(std::move(runs));
  return speeds;
}

}  // namespace tangram::learn

#include "learn/knowledge.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "base/rng.h"
#include "learn/fit.h"

namespace tangram::learn {
namespace {

constexpr std::size_t kCount = kParameterCount;
// General experience counts as much as this many models.
constexpr double kGeneralWeight = 2;
// The same network on another device: its shape stays, its speed may move.
constexpr double kOtherDeviceScaleSpread = 0.35;
constexpr double kOtherDeviceShapeShare = 0.15;  // Of the general spread.

// Subsets that models are judged by; random, because nobody knows what will have been measured of the next one.
constexpr std::size_t kSubsetSizes[] = {5, 10, 15, 25, 50};
constexpr std::uint64_t kSubsetSeed = 1;

const ModelFeatures* find_features(const std::vector<ModelFeatures>& features, std::string_view model) {
  const auto found = std::ranges::find(features, model, &ModelFeatures::model);
  return found == features.end() ? nullptr : &*found;
}

AnalyticPrior prior_from_same(const Knowledge::Seen& seen) {
  AnalyticPrior prior = general_prior();
  for (std::size_t i = 0; i < kCount; ++i) {
    prior.mean[i] = seen.analytic.parameters[i];
    const bool scale = i == kLaunch || i == kWork;
    double& variance = prior.covariance[i * kCount + i];
    variance = scale ? kOtherDeviceScaleSpread * kOtherDeviceScaleSpread
                     : variance * kOtherDeviceShapeShare * kOtherDeviceShapeShare;
  }
  prior.models = 1;
  return prior;
}

// How the logarithm of work follows the logarithm of FLOPs over the models seen, as an offset: with time proportional
// to FLOPs only the constant is unknown.
std::optional<double> work_from_flops(const Knowledge& knowledge, const std::optional<ModelFeatures>& features) {
  if (!features || !features->flops_per_sample || *features->flops_per_sample <= 0) return std::nullopt;
  double sum = 0;
  int count = 0;
  for (const auto& seen : knowledge.seen) {
    if (!seen.features || !seen.features->flops_per_sample || *seen.features->flops_per_sample <= 0) continue;
    sum += seen.analytic.parameters[kWork] - math::log(*seen.features->flops_per_sample);
    ++count;
  }
  if (count < 2) return std::nullopt;
  return math::log(*features->flops_per_sample) + sum / count;
}

}  // namespace

Knowledge know(const Measurements& measurements, const std::vector<ModelFeatures>& features) {
  Knowledge knowledge;
  for (const auto& target : targets_of(measurements)) {
    const auto run = fit_target(select(measurements, target), {}, {.kind = "kriged"});
    if (!run) continue;
    Knowledge::Seen seen{target, run->analytic, run->memory, run->kriged.scale(), std::nullopt};
    if (const auto* known = find_features(features, target.model)) seen.features = *known;
    knowledge.seen.push_back(std::move(seen));
  }
  return knowledge;
}

void learn_errors(Knowledge& knowledge, const Measurements& measurements) {
  for (const auto& target : targets_of(measurements)) {
    Measurements all = select(measurements, target);
    const Knowledge others = without(knowledge, target.model);
    Rng rng = Rng(kSubsetSeed).stream(target.model);
    for (const std::size_t count : kSubsetSizes) {
      if (all.size() < 2 * count) continue;
      rng.shuffle(all);
      const auto middle = all.begin() + static_cast<std::ptrdiff_t>(count);
      const auto run = fit_target(Measurements(all.begin(), middle), others, {.kind = "kriged"});
      if (!run) continue;
      for (const auto& m : Measurements(middle, all.end())) {
        const auto features = features_of(m.device, candidate_of(m));
        if (!m.latency_ms || !features) continue;
        const Forecast forecast = run->kriged.forecast(*features);
        const double away = std::abs(math::log(*m.latency_ms) - forecast.log_ms) / forecast.deviation;
        knowledge.errors.push_back({target.model, run->kriged.observations().size(), away});
      }
    }
  }
}

Knowledge without(const Knowledge& knowledge, std::string_view model) {
  Knowledge rest = knowledge;
  std::erase_if(rest.seen, [&](const auto& seen) { return seen.target.model == model; });
  std::erase_if(rest.errors, [&](const auto& error) { return error.model == model; });
  return rest;
}

Knowledge without(const Knowledge& knowledge, const Target& target) {
  Knowledge rest = knowledge;
  std::erase_if(rest.seen, [&](const auto& seen) { return seen.target == target; });
  std::erase_if(rest.errors, [&](const auto& error) { return error.model == target.model; });
  return rest;
}

AnalyticPrior prior_for(const Knowledge& knowledge, const Target& target,
                        const std::optional<ModelFeatures>& features) {
  const AnalyticPrior general = general_prior();
  if (knowledge.seen.empty()) return general;
  for (const auto& seen : knowledge.seen) {
    if (seen.target.model == target.model && seen.target.device != target.device) return prior_from_same(seen);
  }
  const auto count = static_cast<double>(knowledge.seen.size());
  AnalyticPrior prior;
  prior.models = knowledge.seen.size();
  for (std::size_t i = 0; i < kCount; ++i) {
    double sum = kGeneralWeight * general.mean[i];
    for (const auto& seen : knowledge.seen) sum += seen.analytic.parameters[i];
    prior.mean[i] = sum / (count + kGeneralWeight);
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t j = 0; j < kCount; ++j) {
      double sum = kGeneralWeight * general.covariance[i * kCount + j];
      for (const auto& seen : knowledge.seen) {
        sum += (seen.analytic.parameters[i] - prior.mean[i]) * (seen.analytic.parameters[j] - prior.mean[j]);
      }
      prior.covariance[i * kCount + j] = sum / (count + kGeneralWeight);
    }
  }
  if (const auto work = work_from_flops(knowledge, features)) prior.mean[kWork] = *work;
  return prior;
}

}  // namespace tangram::learn

// Where the parameters of a new model probably lie, from models that were measured before.
//
// Three sources, from general to specific: all models seen (the crowd), features of the network such as its FLOPs, and
// the same network on another device (a twin). The narrower prior wins. Example: after ten language models, a new one
// with known FLOPs has its work predicted by a line through theirs, and the launch time, which its FLOPs say nothing
// about, by the crowd.
//
// A target must not learn from itself, or it would be too sure: what without() returns is safe to use as its knowledge.

#include "learn/knowledge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "base/rng.h"
#include "learn/fit.h"

namespace tangram::learn {
namespace {

// General experience counts as much as this many models.
constexpr double kGeneralWeight = 2;
// The same network on another device: its shape stays, its speed may move.
constexpr double kOtherDeviceScaleSpread = 0.35;
constexpr double kOtherDeviceShapeShare = 0.15;  // Of the general spread.

// How work grows with FLOPs or weights, by general experience: a little less than proportionally, because large
// networks use a GPU a little better. It counts as kGeneralWeight models whose features have kFeatureVariance.
constexpr double kProportional = 0.9;
constexpr double kFeatureVariance = 1;
constexpr double kFactorSpread = 0.2;     // Of log work given a feature, beside what the models seen show.
constexpr double kQuadraticSpread = 0.5;  // FLOPs of attention are cheaper or dearer than others.

// Sizes of the random subsets on which forecasts are tested. Random, because it is unknown which points of the next
// model will have been measured.
constexpr std::size_t kSubsetSizes[] = {5, 10, 15, 25, 50};
constexpr std::uint64_t kSubsetSeed = 1;

// The prior from the same network on another device: its fit there, with its uncertainty there, plus what a change of
// device adds. Its speed may change by about 35 %; its shape changes little.
AnalyticPrior prior_from_same(const Knowledge::Seen& seen) {
  const AnalyticPrior general = general_prior();
  AnalyticPrior prior{seen.analytic.parameters, seen.uncertainty, 1};
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    const bool scale = i == kLaunch || i == kWork;
    const double usual = general.covariance[i * kParameterCount + i];
    prior.covariance[i * kParameterCount + i] += scale ? kOtherDeviceScaleSpread * kOtherDeviceScaleSpread
                                                       : usual * kOtherDeviceShapeShare * kOtherDeviceShapeShare;
  }
  return prior;
}

// The total variance, by which priors are compared.
double width_of(const AnalyticPrior& prior) {
  double sum = 0;
  for (std::size_t i = 0; i < kParameterCount; ++i) sum += prior.covariance[i * kParameterCount + i];
  return sum;
}

// The narrowest prior over all other devices on which the model was seen; nullopt if there is none.
std::optional<AnalyticPrior> prior_from_twins(const Knowledge& knowledge, const Target& target) {
  std::optional<AnalyticPrior> best;
  for (const auto& seen : knowledge.seen) {
    if (seen.target.model != target.model || seen.target.device == target.device) continue;
    const AnalyticPrior prior = prior_from_same(seen);
    if (!best || width_of(prior) < width_of(*best)) best = prior;
  }
  return best;
}

// The logarithm of the work of one sample, up to a factor that networks share: FLOPs for each unit of size, or the
// number of weights. nullopt if the feature is not known for `model`.
std::optional<double> log_size_of_work(const Knowledge& knowledge, std::string_view model, bool flops) {
  for (const auto& entry : knowledge.features) {
    const auto& value = flops ? entry.flops_per_sample : entry.parameters;
    if (entry.model == model && value && *value > 0) return math::log(*value / (flops ? entry.size : 1));
  }
  return std::nullopt;
}

struct Normal {
  double mean = 0;
  double variance = 0;
};

// Log work for size 1, and the feature, of a model that was seen.
struct Described {
  double work = 0;
  double feature = 0;
};

std::vector<Described> described_models(const Knowledge& knowledge, bool flops) {
  std::vector<Described> models;
  for (const auto& seen : knowledge.seen) {
    const auto feature = log_size_of_work(knowledge, seen.target.model, flops);
    if (!feature) continue;
    models.push_back({seen.analytic.parameters[kWork] - math::log(seen.analytic.size_reference), *feature});
  }
  return models;
}

// Ridge regression of log work on a log feature over the models seen. The slope is shrunk towards kProportional. The
// variance is that of a prediction: it grows with the distance of the target from the centre of the models. nullopt if
// the target or too many models lack the feature.
std::optional<Normal> work_from_features(const Knowledge& knowledge, const Target& target, bool flops) {
  const auto own = log_size_of_work(knowledge, target.model, flops);
  const auto models = described_models(knowledge, flops);
  if (!own || models.size() < kFeaturesMin) return std::nullopt;
  const auto count = static_cast<double>(models.size());
  Described centre;
  for (const auto& m : models) centre.work += m.work / count, centre.feature += m.feature / count;
  double both = kGeneralWeight * kProportional * kFeatureVariance;
  double feature = kGeneralWeight * kFeatureVariance;
  for (const auto& m : models) {
    both += (m.work - centre.work) * (m.feature - centre.feature);
    feature += (m.feature - centre.feature) * (m.feature - centre.feature);
  }
  const double slope = both / feature;
  double spread = 0;
  for (const auto& m : models) {
    const double off = m.work - centre.work - slope * (m.feature - centre.feature);
    // Two degrees of freedom went into the line; kFeaturesMin leaves at least one.
    spread += off * off / (count - 2);
  }
  const double away = *own - centre.feature;
  const double variance = kFactorSpread * kFactorSpread + spread * (1 + 1 / count + away * away / feature);
  return Normal{centre.work + slope * away, variance};
}

// The quadratic term of the size from FLOPs at two sizes: with sizes s relative to the reference, f2 / f1 = s2 / s1 *
// (1 + q s2) / (1 + q s1), solved for q. nullopt without two sizes, and unless the growth lies between linear and
// quadratic.
std::optional<double> log_quadratic(const Knowledge& knowledge, const Target& target, double size_reference) {
  const ModelFeatures* first = nullptr;
  for (const auto& entry : knowledge.features) {
    if (entry.model != target.model || !entry.flops_per_sample) continue;
    if (first == nullptr) {
      first = &entry;
    } else if (entry.size != first->size) {
      const double s1 = first->size / size_reference;
      const double s2 = entry.size / size_reference;
      const double bend = *entry.flops_per_sample / *first->flops_per_sample * s1 / s2;
      const double q = (bend - 1) / (s2 - bend * s1);
      return q > 0 ? std::optional(math::log(q)) : std::nullopt;
    }
  }
  return std::nullopt;
}

// Replaces the marginal of one parameter. Its correlations are dropped: they describe how it varies between models,
// which no longer matters once it is known from elsewhere.
void narrow(AnalyticPrior& prior, Parameter parameter, const Normal& to) {
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    prior.covariance[parameter * kParameterCount + i] = prior.covariance[i * kParameterCount + parameter] = 0;
  }
  prior.mean[parameter] = to.mean;
  prior.covariance[parameter * kParameterCount + parameter] = to.variance;
}

// FLOPs first: weights do not say how often each is used.
std::optional<Normal> feature_work(const Knowledge& knowledge, const Target& target) {
  const auto work = work_from_features(knowledge, target, true);
  return work ? work : work_from_features(knowledge, target, false);
}

void use_features(AnalyticPrior& prior, const Knowledge& knowledge, const Target& target) {
  if (auto work = feature_work(knowledge, target)) {
    // Work refers to the reference size, which models with sizes have.
    const bool sized = std::ranges::any_of(
        knowledge.features, [&](const auto& entry) { return entry.model == target.model && entry.size > 1; });
    work->mean += sized ? math::log(kTokensReference) : 0;
    // The crowd may be more alike than its features suggest; then the features would only add noise.
    if (work->variance < prior.covariance[kWork * kParameterCount + kWork]) narrow(prior, kWork, *work);
  }
  if (const auto quadratic = log_quadratic(knowledge, target, kTokensReference)) {
    narrow(prior, kQuadratic, {*quadratic, kQuadraticSpread * kQuadraticSpread});
  }
}

// Mean and covariance of all models seen, with general experience counting as kGeneralWeight further models. So one
// model shifts the prior by a third, and ten leave little of the general one.
AnalyticPrior prior_from_crowd(const Knowledge& knowledge) {
  const AnalyticPrior general = general_prior();
  if (knowledge.seen.empty()) return general;
  const auto count = static_cast<double>(knowledge.seen.size());
  AnalyticPrior prior;
  prior.models = knowledge.seen.size();
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    double sum = kGeneralWeight * general.mean[i];
    for (const auto& seen : knowledge.seen) sum += seen.analytic.parameters[i];
    prior.mean[i] = sum / (count + kGeneralWeight);
  }
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    for (std::size_t j = 0; j < kParameterCount; ++j) {
      double sum = kGeneralWeight * general.covariance[i * kParameterCount + j];
      for (const auto& seen : knowledge.seen) {
        sum += (seen.analytic.parameters[i] - prior.mean[i]) * (seen.analytic.parameters[j] - prior.mean[j]);
      }
      prior.covariance[i * kParameterCount + j] = sum / (count + kGeneralWeight);
    }
  }
  return prior;
}

}  // namespace

Knowledge know(const Measurements& measurements) {
  Knowledge knowledge;
  for (const auto& target : targets_of(measurements)) {
    const auto run = fit_target(select(measurements, target), {}, {.kind = "kriged"});
    if (!run) continue;
    knowledge.seen.push_back({target, run->analytic, run->kriged.parameter_covariance(), run->memory});
  }
  return knowledge;
}

void learn_errors(Knowledge& knowledge, const Measurements& measurements) {
  for (const auto& target : targets_of(measurements)) {
    Measurements all = select(measurements, target);
    // Without the model on any device: a twin would make the errors smaller than those of a really new model.
    const Knowledge others = without(knowledge, target.model);
    Rng rng = Rng(kSubsetSeed).stream(target.model);
    for (const std::size_t count : kSubsetSizes) {
      // At least as many points to test on as to fit.
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

AnalyticPrior prior_for(const Knowledge& knowledge, const Target& target) {
  AnalyticPrior prior = prior_from_crowd(knowledge);
  if (knowledge.seen.empty()) return prior;
  use_features(prior, knowledge, target);
  const auto twin = prior_from_twins(knowledge, target);
  return twin && width_of(*twin) < width_of(prior) ? *twin : prior;
}

std::optional<std::string> why_features_do_not_help(const Knowledge& knowledge, const Target& target) {
  const bool flops = log_size_of_work(knowledge, target.model, true).has_value();
  if (!flops && !log_size_of_work(knowledge, target.model, false))
    return "the file has neither its FLOPs nor its parameters";
  const auto work = feature_work(knowledge, target);
  if (!work) {
    return fmt::format("{} other measured models have the same feature, but {} are needed",
                       std::max(described_models(knowledge, true).size(), described_models(knowledge, false).size()),
                       kFeaturesMin);
  }
  AnalyticPrior prior = prior_from_crowd(knowledge);
  if (work->variance >= prior.covariance[kWork * kParameterCount + kWork]) {
    return "the measured models differ more from the prediction by their features than from each other";
  }
  use_features(prior, knowledge, target);
  const auto twin = prior_from_twins(knowledge, target);
  if (twin && width_of(*twin) < width_of(prior)) return "the model itself was measured on another device";
  return std::nullopt;
}

}  // namespace tangram::learn

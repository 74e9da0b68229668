// What models that were measured before say about the next one.
//
// Networks differ in how much work they do, but share how work turns into time on a slice. Each model seen before
// leaves its fitted parameters, its memory and its errors. From them follow where a new model's parameters probably lie
// and how wide its intervals must be while it has few measurements of its own.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "learn/candidate.h"
#include "learn/memory_belief.h"
#include "learn/models/analytic_fit.h"

namespace tangram::learn {

// What is known of a network without running it. A model may have several entries, one for each size at which its
// FLOPs are known: from two of them follows how work grows with size.
struct ModelFeatures {
  std::string model;
  std::optional<double> parameters;        // Trainable weights.
  std::optional<double> flops_per_sample;  // Of one sample of `size`.
  double size = 1;

  bool operator==(const ModelFeatures&) const = default;
};

// An error where the model had not looked, in units of the deviation that it had predicted there.
struct ScaledError {
  std::string model;
  std::size_t measurements = 0;  // How many the model had when it erred.
  double deviations = 0;         // Not negative.

  bool operator==(const ScaledError&) const = default;
};

struct Knowledge {
  struct Seen {
    Target target;
    AnalyticFit analytic;
    // How uncertain its parameters still are: little where it was measured well.
    std::array<double, kParameterCount * kParameterCount> uncertainty{};
    MemoryBelief memory{};
  };
  std::vector<Seen> seen;
  std::vector<ModelFeatures> features;  // Of models that were seen, and of others.
  std::vector<ScaledError> errors;
};

// Fits each target of `measurements` on its own. A target of which no run fitted into memory contributes nothing.
Knowledge know(const Measurements& measurements);

// Features help only where at least this many models that were seen have the same one.
inline constexpr std::size_t kFeaturesMin = 3;

// Adds to `errors` how far each target of `measurements` is from what a few of its own measurements and all other
// models say: the evidence for the intervals of models with few measurements.
void learn_errors(Knowledge& knowledge, const Measurements& measurements);

// The same as if `model` had never been seen, on any device.
Knowledge without(const Knowledge& knowledge, std::string_view model);
// The same as if `target` had never been seen; the model on other devices stays.
Knowledge without(const Knowledge& knowledge, const Target& target);

// The distribution of the parameters of `target`. A fit of the same model on another device is used if it is narrower
// than the prior from all models seen and its features; without any model seen, general experience is used.
AnalyticPrior prior_for(const Knowledge& knowledge, const Target& target);

// The reason why the features of `target` do not predict its work, for people; nullopt if they do.
std::optional<std::string> why_features_do_not_help(const Knowledge& knowledge, const Target& target);

}  // namespace tangram::learn

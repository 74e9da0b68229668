// What models that were measured before tell about the next one.
//
// Networks differ in how much work they do, but share how work turns into time on a slice. Each model seen before
// leaves its fitted parameters, its memory and its errors; from them follow where a new model's parameters probably lie
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

// What the targets of `measurements` tell, each fitted on its own. Those of which nothing fitted into memory tell
// nothing.
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

// Where the parameters of `target` probably lie. A model that was seen on another device is the strongest hint if it
// was measured well there, and counts as little as it is known; then all of them, and its features beside theirs; then
// general experience.
AnalyticPrior prior_for(const Knowledge& knowledge, const Target& target);

// Why the features of `target` tell nothing about its work, for people; nothing where they do.
std::optional<std::string> why_features_do_not_help(const Knowledge& knowledge, const Target& target);

}  // namespace tangram::learn

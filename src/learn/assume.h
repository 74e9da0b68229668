// A device type that nobody has measured yet, predicted from one that was: `h100-80gb=a100-80gb*1.7`.
//
// Such predictions are guesses. Their intervals are wide and they say that they are guessed, so a planner can be
// careful with them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "learn/fitted_model.h"

namespace tangram::learn {

struct Assumption {
  std::string device;           // To be predicted.
  std::string from;             // Measured.
  std::optional<double> speed;  // `device` is so many times as fast; nothing: measurements of `device` say it.
};

// How far the speed of one model may be from a speed that was only stated: a factor of 1.6 up or down, at 95 %. Public
// ratios of two generations of GPUs differ as much between models.
inline constexpr double kSpeedDeviationStated = 0.25;
// A speed that was measured at a few points is never known better than this.
inline constexpr double kSpeedDeviationLeast = 0.1;
inline constexpr std::size_t kSpeedPointsMin = 4;
// With as many measurements of its own a model needs no assumption.
inline constexpr std::size_t kOwnPointsMin = 12;

// Reads `DEVICE=DEVICE*FACTOR` or `DEVICE=DEVICE`. Errors: the form, an unknown device type, the host's cores, a factor
// that is not between 0.01 and 100.
Result<Assumption> parse_assumption(std::string_view text);

// The profile of `other` that comes nearest to this one of `device`: of the same name, otherwise with as many compute
// slices and the nearest share of the memory. Nothing if there is none, or a device type is unknown.
std::optional<std::string> counterpart(std::string_view device, std::string_view mig_profile, std::string_view other);

// What an assumption came to.
struct AssumedSpeed {
  Assumed assumed;
  std::size_t points = 0;           // That it was taken from; 0: it was stated.
  std::vector<std::string> models;  // That are predicted by it.
};

// Adds a run for each model that was measured on `from` and has fewer than kOwnPointsMin measurements on `device`; with
// a speed of its own where at least kSpeedPointsMin of them are its own. Errors: nothing was measured on `from`; no
// speed is stated and fewer than kSpeedPointsMin measurements say it.
Result<std::vector<AssumedSpeed>> assume(const Assumption& assumption, FittedModel& model);

}  // namespace tangram::learn

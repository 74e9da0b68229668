// What may be measured of one model on one device type.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "core/latency_model.h"
#include "core/measurement.h"

namespace tangram::learn {

// Whom measurements and predictions are about.
struct Target {
  std::string device;  // Device type.
  std::string model;

  auto operator<=>(const Target&) const = default;
};

// One configuration of a target.
struct Candidate {
  std::string mig_profile;
  std::int64_t batch = 1;
  std::int64_t size = 1;
  std::int64_t processes = 1;

  auto operator<=>(const Candidate&) const = default;
};

Target target_of(const Measurement& measurement);
Candidate candidate_of(const Measurement& measurement);
// Views into both arguments, which must outlive it.
RunPoint point_of(const Target& target, const Candidate& candidate);

// The targets of `measurements`, each once, ascending.
std::vector<Target> targets_of(const Measurements& measurements);
Measurements select(const Measurements& measurements, const Target& target);

}  // namespace tangram::learn

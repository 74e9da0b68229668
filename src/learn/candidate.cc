#include "learn/candidate.h"

#include <algorithm>

namespace tangram::learn {

Target target_of(const Measurement& measurement) { return {measurement.device, measurement.model}; }

Candidate candidate_of(const Measurement& measurement) {
  return {measurement.mig_profile, measurement.batch, measurement.size, measurement.processes};
}

RunPoint point_of(const Target& target, const Candidate& candidate) {
  return {target.device, candidate.mig_profile, target.model, candidate.batch, candidate.size, candidate.processes};
}

// Sorted, so that results do not depend on the order of rows in a file.
std::vector<Target> targets_of(const Measurements& measurements) {
  std::vector<Target> targets;
  for (const auto& m : measurements) targets.push_back(target_of(m));
  std::ranges::sort(targets);
  const auto rest = std::ranges::unique(targets);
  targets.erase(rest.begin(), rest.end());
  return targets;
}

// Keeps the order of the rows, which is the order of measuring.
Measurements select(const Measurements& measurements, const Target& target) {
  Measurements selected;
  std::ranges::copy_if(measurements, std::back_inserter(selected),
                       [&](const Measurement& m) { return target_of(m) == target; });
  return selected;
}

}  // namespace tangram::learn

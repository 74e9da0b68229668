// Draws run times around an expected one. Each placement and shape has a random stream of its own, so the draws of one
// point do not depend on which other points are measured, or in which order.
#include "engines/detail/noise.h"

#include <fmt/format.h>

#include <cmath>

#include "base/math.h"

namespace tangram::engines::detail {

Noise::Noise(std::uint64_t seed, const Placement& placement)
    : root_(Rng(seed).stream(
          fmt::format("{}/{}/{}/{}", placement.device, placement.mig_profile, placement.model, placement.processes))) {}

Rng& Noise::stream(const BatchShape& shape) {
  const auto name = [&] { return fmt::format("{}/{}", shape.batch, shape.size); };
  const std::pair key(shape.batch, shape.size);
  const auto found = streams_.find(key);
  return found != streams_.end() ? found->second : streams_.emplace(key, root_.stream(name())).first->second;
}

Duration Noise::draw(const BatchShape& shape, const Expected& expected) {
  if (expected.spread <= Duration::zero()) return expected.mean;
  // Run times are positive and skewed upwards, hence a log-normal. One with mean m and deviation s has
  // sigma^2 = log(1 + (s / m)^2) and mu = log(m) - sigma^2 / 2.
  const double mean = to_seconds(expected.mean);
  const double ratio = to_seconds(expected.spread) / mean;
  const double variance = math::log(1 + ratio * ratio);
  return from_seconds(stream(shape).log_normal(math::log(mean) - variance / 2, std::sqrt(variance)));
}

}  // namespace tangram::engines::detail

// Seeded variation of run times.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/rng.h"
#include "base/time.h"
#include "engines/engine.h"

namespace tangram::engines::detail {

// What a run is expected to take.
struct Expected {
  Duration mean{};
  Duration spread{};  // Standard deviation.
};

// Draws log-normal durations with the expected mean and spread: they are never negative, and skewed to the slow side as
// real ones are. The draws of a point follow from the seed and the point alone, not from what ran before, so that an
// interrupted series repeats.
class Noise {
 public:
  Noise(std::uint64_t seed, const Placement& placement);
  Duration draw(const BatchShape& shape, const Expected& expected);

 private:
  Rng& stream(const BatchShape& shape);

  Rng root_;
  std::map<std::pair<std::int64_t, std::int64_t>, Rng> streams_;  // By batch and size.
};

}  // namespace tangram::engines::detail

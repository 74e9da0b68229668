// Gradient-boosted trees on what the formula leaves over.
#pragma once

#include <cstdint>
#include <span>

#include "learn/detail/boosted_trees.h"
#include "learn/models/analytic_fit.h"

namespace tangram::learn {

// The residual of log latency over the formula, never falling with batch and size and never rising with the slice, so
// the sum keeps the formula's monotonicity.
struct Boosted {
  detail::Trees trees;

  bool empty() const { return trees.empty(); }
  double residual(const Features& features) const;

  bool operator==(const Boosted&) const = default;
};

// Needs at least kBoostedMin observations; fewer give an empty model.
Boosted fit_boosted(std::span<const Observation> observations, const AnalyticFit& analytic, std::uint64_t seed);
inline constexpr std::size_t kBoostedMin = 20;

}  // namespace tangram::learn

// The trees learn what the formula leaves over. Beyond the data they are constant, so there the formula alone gives the
// shape.

#include "learn/models/boosted.h"

#include <array>

#include "base/math.h"

namespace tangram::learn {
namespace {

constexpr std::size_t kColumns = 5;
using Row = std::array<float, kColumns>;

// Logarithms, because latency is a product of powers; float, because the trees only compare.
Row row_of(const Features& f) {
  const auto log = [](double x) { return static_cast<float>(math::log(x)); };
  return {log(f.batch), log(f.size), log(f.compute), log(f.bandwidth), log(f.processes)};
}

}  // namespace

double Boosted::residual(const Features& features) const { return trees.empty() ? 0 : trees.predict(row_of(features)); }

Boosted fit_boosted(std::span<const Observation> observations, const AnalyticFit& analytic, std::uint64_t seed) {
  if (observations.size() < kBoostedMin) return {};
  std::vector<float> rows;
  std::vector<float> targets;
  for (const auto& o : observations) {
    const Row row = row_of(o.features);
    rows.insert(rows.end(), row.begin(), row.end());
    targets.push_back(static_cast<float>(o.log_ms - analytic.log_ms(o.features)));
  }
  // More batch or size never takes less time, a larger slice never more. Processes may do either.
  return {detail::train_trees(rows, targets, {.monotone = {1, 1, -1, -1, 0}, .seed = seed})};
}

}  // namespace tangram::learn

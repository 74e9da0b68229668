// The capacity of a cut, by linear programming duality.
//
// Let a second on a slice of size i cost w[i], so that all slices together cost 1 a second. A query of b samples then
// costs at least min over i of w[i] * run[i][b], and a rate whose queries cost more than 1 a second cannot be served.
// Every w gives such an upper bound, and the least of them is the capacity. The weights are found by raising those of
// sizes that get too much work (multiplicative weights); the mean of the assignments on the way is a lower bound, which
// tells when to stop.

#include "experiments/detail/cut_capacity.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/math.h"

namespace tangram::experiments::detail {
namespace {

constexpr double kGap = 0.0005;
constexpr int kRoundsMax = 200000;

// Where each number of samples is cheapest at the present weights.
struct Assignment {
  double cost = 0;             // Of a query, on average.
  std::vector<double> load_s;  // By size: work of an average query.
};

Assignment assign(const std::vector<SizedSlices>& sizes, const std::vector<double>& share,
                  const std::vector<double>& weight) {
  Assignment answer{0, std::vector<double>(sizes.size(), 0)};
  for (std::size_t b = 0; b < share.size(); ++b) {
    std::size_t best = sizes.size();
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i].count == 0 || b >= sizes[i].run_s.size()) continue;
      const double cost = weight[i] * sizes[i].run_s[b];
      if (cost >= least) continue;
      least = cost;
      best = i;
    }
    answer.cost += share[b] * least;
    if (best < sizes.size()) answer.load_s[best] += share[b] * sizes[best].run_s[b];
  }
  return answer;
}

}  // namespace

double cut_capacity_alone(const std::vector<SizedSlices>& sizes, const std::vector<double>& share) {
  double slices = 0;
  for (const auto& size : sizes) slices += size.count;
  if (slices == 0) return 0;
  // By size, per slice: how much of a second's cost one of its slices has.
  std::vector<double> weight(sizes.size(), 1 / slices);
  std::vector<double> load_sum(sizes.size(), 0);
  double high = std::numeric_limits<double>::infinity();
  double low = 0;
  for (int round = 1; round <= kRoundsMax && high > (1 + kGap) * low; ++round) {
    const Assignment now = assign(sizes, share, weight);
    if (now.cost == std::numeric_limits<double>::infinity()) return 0;
    high = std::min(high, 1 / now.cost);
    double fullest = 0;  // The work that an average query brings a slice, on average over the rounds.
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      load_sum[i] += now.load_s[i];
      if (sizes[i].count > 0) fullest = std::max(fullest, load_sum[i] / (round * sizes[i].count));
    }
    low = std::max(low, 1 / fullest);
    // Work beyond what a size can do at the best known rate raises its weight; the step shrinks with the rounds.
    const double step = 1 / std::sqrt(static_cast<double>(round));
    double total = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i].count == 0) continue;
      const double excess = high * now.load_s[i] / sizes[i].count - 1;
      weight[i] *= math::exp(step * std::clamp(excess, -1.0, 1.0));
      total += weight[i] * sizes[i].count;
    }
    for (double& w : weight) w /= total;
  }
  return high;
}

double cut_capacity_merged(const std::vector<SizedSlices>& sizes, const std::vector<double>& share) {
  double samples = 0;
  for (std::size_t b = 0; b < share.size(); ++b) samples += share[b] * static_cast<double>(b + 1);
  double per_second = 0;
  for (const auto& size : sizes) {
    double best = 0;
    for (std::size_t b = 0; b < size.run_s.size(); ++b)
      best = std::max(best, static_cast<double>(b + 1) / size.run_s[b]);
    per_second += size.count * best;
  }
  return per_second / samples;
}

}  // namespace tangram::experiments::detail

#include "control/demand.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"

namespace tangram::control {
namespace {

// The share of requests in each class. Class c holds the sizes from 2^(c/2) up to 2^((c+1)/2).
std::map<int, double> shares_by_class(const SizeCounts& counts) {
  std::map<int, double> shares;
  double total = 0;
  for (const auto& [size, count] : counts) total += count;
  for (const auto& [size, count] : counts) {
    // The small addition keeps a power of two in its own class although its logarithm is rounded.
    const double exponent = 2 * math::log(static_cast<double>(size)) / math::log(2);
    shares[static_cast<int>(std::floor(exponent + 1e-9))] += count / total;
  }
  return shares;
}

}  // namespace

double rounded_up(double rate, double step) {
  const double base = math::log(1 + step);
  // A rate of 0 has no logarithm, so one request in a thousand seconds is the least. The small subtraction keeps a rate
  // that already is such a power where it is.
  return math::exp(base * std::ceil(math::log(std::max(rate, 1e-3)) / base - 1e-9));
}

// Total variation distance: the share of requests that would have to change class, 0 to 1.
double mix_distance(const SizeCounts& a, const SizeCounts& b) {
  auto shares = shares_by_class(a);
  for (const auto& [each, share] : shares_by_class(b)) shares[each] -= share;
  double sum = 0;
  for (const auto& [each, share] : shares) sum += std::abs(share);
  return sum / 2;
}

double burst_ratio(const Service& service) {
  const auto* bursts = std::get_if<BurstTraffic>(&service.traffic);
  return bursts == nullptr || bursts->rate_per_s <= 0 ? 1 : burst_rate_per_s(*bursts) / bursts->rate_per_s;
}

double mean_size(const SizeCounts& mix) {
  double sum = 0;
  double total = 0;
  for (const auto& [size, count] : mix) {
    sum += static_cast<double>(size) * count;
    total += count;
  }
  return total > 0 ? sum / total : 0;
}

}  // namespace tangram::control

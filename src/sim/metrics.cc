// Sums and quantiles over tallies.
//
// The one rule to know: every arrival counts. A rejected or failed request has an infinite latency, so a policy cannot
// improve its p99 by rejecting the requests that would have been late.

#include "sim/metrics.h"

#include <cmath>

namespace tangram::sim {

std::uint64_t Tally::rejected_total() const {
  std::uint64_t sum = 0;
  for (const auto count : rejected) sum += count;
  return sum;
}

Duration Tally::wait_mean() const {
  return latency.empty() ? Duration::zero()
                         : Duration(static_cast<std::int64_t>(wait_sum_ns / static_cast<double>(latency.count())));
}

double Tally::slo_attainment() const {
  return arrived == 0 ? 1 : static_cast<double>(served) / static_cast<double>(arrived);
}

// The sketch holds only answered requests. The rank among all arrivals is converted to a rank among the answered ones;
// beyond the last answered request the quantile is infinite. Example: of 100 arrivals 98 were answered; p98 is the
// largest latency, p99 is infinite.
Duration Tally::latency_quantile(double q) const {
  if (latency.empty()) return Duration::max();
  const auto wanted = std::ceil(q * static_cast<double>(arrived));
  const double share = wanted / static_cast<double>(latency.count());
  return share > 1 ? Duration::max() : Duration(static_cast<std::int64_t>(latency.quantile(share)));
}

void Tally::add(const Tally& other) {
  arrived += other.arrived;
  served += other.served;
  late += other.late;
  failed += other.failed;
  for (std::size_t i = 0; i < rejected.size(); ++i) rejected[i] += other.rejected[i];
  latency.merge(other.latency);
  wait_sum_ns += other.wait_sum_ns;
  size_real += other.size_real;
  size_padded += other.size_padded;
}

// Short queue lengths are counted exactly in an array; they join the sketch of the long ones only here.
QuantileSketch QueueDepth::found() const {
  QuantileSketch all = long_;
  for (std::size_t depth = 0; depth < kShort; ++depth) all.add(depth, short_[depth]);
  return all;
}

Tally Metrics::service_total(std::size_t service) const {
  Tally sum;
  for (const auto& bucket : services[service]) sum.add(bucket);
  return sum;
}

CountHistogram Metrics::service_batch_sizes(std::size_t service) const {
  CountHistogram sum(kBatchSizesCounted);
  for (const auto& bucket : batch_sizes[service]) sum.merge(bucket);
  return sum;
}

Tally Metrics::total() const {
  Tally sum;
  for (std::size_t s = 0; s < services.size(); ++s) sum.add(service_total(s));
  return sum;
}

}  // namespace tangram::sim

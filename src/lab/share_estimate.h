// The share of requests in time, from independent replicates of parts of the traffic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"
#include "sim/metrics.h"

namespace tangram::lab {

// An estimated share with a one-sided bound on each side.
struct ShareInterval {
  double share = 0;
  double low = 0;
  double high = 1;
};

// Collects replicates. Part by part the share is requests in time over requests, which are summed over all replicates;
// a view weighs the parts by their exact shares of the traffic. The spread comes from how the replicates differ, so
// nothing is assumed about how losses cluster within one.
class ShareEstimate {
 public:
  explicit ShareEstimate(std::size_t parts) : sums_(parts) {}

  // `parts` are the tallies of one or more replicates, as Metrics::parts has them.
  void add(std::span<const sim::Tally> parts);
  std::size_t replicates() const { return rows_.size(); }
  std::uint64_t arrived() const { return arrived_; }

  // `weight` by part; `tail` is the probability that the share lies below the low end, and that it lies above the high
  // end. Requires two replicates.
  ShareInterval interval(std::span<const double> weight, double tail) const;
  // The share by the weights, without an interval.
  double share(std::span<const double> weight) const;
  double part_share(std::size_t part) const;
  // The latency that `quantile` of the requests of a view do not exceed. Duration::max() if so many were never
  // answered.
  Duration latency(std::span<const double> weight, double quantile) const;

 private:
  struct Count {
    double arrived = 0;
    double served = 0;
  };

  void add_replicate(std::span<const sim::Tally> parts);
  // The weights without those of parts that had no request, scaled so that they sum to one.
  std::vector<double> known(std::span<const double> weight) const;

  std::vector<std::vector<Count>> rows_;  // By replicate and part.
  std::vector<sim::Tally> sums_;          // By part.
  std::uint64_t arrived_ = 0;
};

}  // namespace tangram::lab

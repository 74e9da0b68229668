// What a plan is made for: the rate and the input sizes of each service.
#pragma once

#include <cstdint>
#include <map>

#include "core/workload.h"

namespace tangram::control {

// How many requests of each input size; only the ratios matter.
using SizeCounts = std::map<std::int64_t, double>;

// Of one service.
struct ServiceDemand {
  double rate_per_s = 0;
  SizeCounts mix;

  bool operator==(const ServiceDemand&) const = default;
};

// The smallest power of 1 + step that is at least `rate`. Demands are rounded to such steps so that a small change of
// the forecast keeps the plan: with a step of 0.1, 11.0 and 11.9 requests a second are both planned for as 11.92.
double rounded_up(double rate, double step);

// How far two mixes of input sizes are apart, from 0 (the same) to 1 (no size in common): the total variation distance
// of their shares in classes of sizes that grow by a factor of the square root of two. Exact sizes would differ between
// any two samples, and so show drift where there is only chance.
double mix_distance(const SizeCounts& a, const SizeCounts& b);

// How many times its mean rate a service has while a burst lasts, from the shape of its traffic; 1 without bursts.
double burst_ratio(const Service& service);

// 0 for an empty mix.
double mean_size(const SizeCounts& mix);

}  // namespace tangram::control

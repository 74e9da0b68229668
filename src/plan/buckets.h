// Where to put the edges of buckets.
#pragma once

#include <functional>
#include <vector>

#include "plan/demand.h"

namespace tangram::plan {

// The least cost of serving all inputs larger than `lo` and up to `hi` as one bucket, padded to `hi`; infinite if it
// cannot be done. `share` of all samples fall into it.
using BucketCost = std::function<double(std::int64_t hi, double share)>;

struct BucketSet {
  std::vector<std::int64_t> edges;
  double cost = 0;
};

// The cheapest set of one bucket, of two, and so on up to `buckets_max`, by dynamic programming over candidate edges.
// Sets that are no cheaper than a smaller one are left out, so costs descend.
std::vector<BucketSet> bucket_sets(const std::vector<SizeShare>& sizes, int buckets_max, const BucketCost& cost);

// Candidate edges: every size where there are few; else those at which about as many inputs lie between one and the
// next, and those that divide the range in equal ratios; the largest size always.
inline constexpr std::size_t kEdgesMax = 48;
std::vector<std::int64_t> edge_candidates(const std::vector<SizeShare>& sizes);

// The sets to consider for a service, by the price of slices: a bucket costs the time that it takes on the kind that
// is cheapest for it, in batches no larger than gather before they are late. Buckets split the load, so at low rates
// their batches get smaller, and few buckets win.
std::vector<BucketSet> service_bucket_sets(const Problem& problem, const Stock& stock, std::size_t service);

}  // namespace tangram::plan

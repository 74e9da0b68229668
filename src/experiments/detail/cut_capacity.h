// The highest rate that a cut can serve for ever, whatever the policy.
#pragma once

#include <vector>

namespace tangram::experiments::detail {

// Slices of one size.
struct SizedSlices {
  int count = 0;
  std::vector<double> run_s;  // By samples - 1; a size does not take queries with more samples than it has entries.
};

// Queries a second. `share[b - 1]` of the queries have b samples; each runs alone, on a slice of any size that takes
// it. No policy serves more for ever: the rate is that of the linear program which divides the queries of each number
// of samples among the sizes so that no size has more than a second of work a second. The answer is never below the
// optimum of that program and at most 0.05 % above it. 0 if some queries fit nowhere.
double cut_capacity_alone(const std::vector<SizedSlices>& sizes, const std::vector<double>& share);

// The same if queries share batches of up to the largest known size, each at its best sample rate.
double cut_capacity_merged(const std::vector<SizedSlices>& sizes, const std::vector<double>& share);

}  // namespace tangram::experiments::detail

// What a plan loses by what is not known yet.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace tangram::learn {

// The latency of a candidate that does not fit into memory.
inline constexpr double kOutOfMemory = std::numeric_limits<double>::infinity();

// What is believed of one candidate when the plan is made.
struct Belief {
  double log_ms = 0;     // Mean of log latency.
  double deviation = 0;  // Its standard deviation; 0 where the candidate was measured.
  double fits = 1;       // Probability that it fits into memory.
};

// A plan is made from `believed` and then meets each of `realities`, the latencies that the candidates might really
// have. Returns the mean loss against the plan that would have been made from the reality itself, as a share between 0
// and 1, and adds to `blame` the part of it that each candidate caused: the one that was chosen and the one that should
// have been.
//
// `learn` cannot see how plans are made; whoever can hands it this function.
using Regret = std::function<double(std::span<const Belief> believed, std::span<const std::vector<double>> realities,
                                    std::span<double> blame)>;

}  // namespace tangram::learn

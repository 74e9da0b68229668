// The loss of a plan that is made before everything is known.
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

// `learn` does not depend on the planner, so the loss of a plan is passed in as two functions.
struct Regret {
  // A plan is made from `believed` and then meets each of `realities`, the latencies that the candidates might really
  // have. The mean loss against the plan that would have been made from the reality itself, as a share between 0 and 1.
  std::function<double(std::span<const Belief> believed, std::span<const std::vector<double>> realities)> loss;
  // For each candidate what a plan expects to gain by knowing it before it chooses, as a share of the whole; 0 where
  // the candidate is known already.
  std::function<std::vector<double>(std::span<const Belief> believed)> gain;
};

}  // namespace tangram::learn

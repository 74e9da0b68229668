// A bound on the price of plans with shared slices that knows what one slice can hold.
//
// share_bound() divides slices in any fractions. Here a slice holds whole models: a pattern is a set of queues on one
// slice of a kind whose weights fit, whose work does not exceed the slice's time, who may share, and who do not make
// each other late. The bound is that of the linear program over all patterns, of which only those are made that matter.
//
// A queue is either on one slice alone, with all its work, or on two at least. So a pattern counts fully for a queue
// that it serves alone and for half of it otherwise. Alone on one slice, a queue is subject to blocking: batches are
// not interrupted, so whoever arrives while a neighbour's batch has longer to run than it can wait is late, whatever
// the scheduler does. Random arrivals see the time averages of the slice, hence the share of requests that are late is
// at least rate * (run - slack) of each neighbour, summed up.
#pragma once

#include <functional>

#include "plan/detail/share_bound.h"

namespace tangram::plan::detail {

struct PatternOptions {
  // Whether a queue with a slice of the kind to itself, and no other, certainly breaks its promise. Empty: never.
  std::function<bool(std::size_t queue, std::size_t kind)> breaks_alone;
  // Whether two queues may be on one slice.
  std::function<bool(std::size_t, std::size_t)> compatible;
  bool blocking = true;            // False: neighbours never make each other late, as under rules without waiting.
  double price_enough = kEndless;  // Higher bounds are of no use.
  int rounds_max = 80;

  static constexpr double kEndless = 1e18;
};

// A price that no plan is below; 0 if none was found. `services`: those that the queues were made of. Requires that
// `devices` has the kinds of the stock.
double pattern_bound(const QueueProblem& problem, const std::vector<Service>& services, const CoverProblem& devices,
                     const std::vector<Demand>& demands, const PatternOptions& options);

}  // namespace tangram::plan::detail

// A bound on the price of any plan, with or without shared slices.
#pragma once

#include <string>
#include <vector>

#include "plan/detail/share_queues.h"

namespace tangram::plan::detail {

struct ShareBound {
  bool known = false;
  double price = 0;                 // No plan costs less.
  std::vector<double> queue_price;  // What each queue adds to it: its fair price.
  std::vector<double> kind_price;   // What a slice of each kind is worth.
  std::string binds;                // "work" or "memory": what most of the price is for.
};

// Relaxes everything but work and memory: slices may be divided among queues in any fractions, a queue must be loaded
// on slices whose numbers add up to the time that it uses and to one at least, and weights must fit. `demands` by
// queue.
ShareBound share_bound(const QueueProblem& problem, const CoverProblem& devices, const std::vector<Demand>& demands);

}  // namespace tangram::plan::detail

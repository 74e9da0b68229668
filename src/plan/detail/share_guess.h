// A guess whether queues can share slices, by formulas: it saves simulations that would surely fail.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/demand.h"
#include "plan/detail/share_queues.h"

namespace tangram::plan::detail {

// A slice is packed up to this share of its time at most.
inline constexpr double kPackedMost = 0.85;

// What one queue does to a slice of a kind, request by request, or batch by batch where requests come fast.
struct QueueLoad {
  bool runs = false;
  double rate_per_s = 0;  // Of runs.
  double run_s = 0;       // The mean of one.
  double longest_s = 0;   // Of the largest request alone.
  double working_mib = 0;
};

// The load of queue `q`, whose demand is given, on slices of a kind; `runs` is false if it does not run there.
QueueLoad queue_load(const QueueProblem& queues, const Demand& demand, std::size_t q, std::size_t kind);

// A guess whether the promises hold if the queues share `count` slices: waits as in a queue with random arrivals, whose
// tail falls exponentially from the mean (Pollaczek and Khinchine; Sakasegawa for several slices), and foreign runs
// that are longer than the time that is left. A simulation has the last word.
bool likely_holds(const QueueProblem& problem, const std::vector<std::size_t>& queues,
                  const std::vector<QueueLoad>& loads, int count);

// Every run of a model on demand begins with its load: `loads_s`, by queue.
std::vector<QueueLoad> with_loading(std::vector<QueueLoad> loads, const std::vector<double>& loads_s);

}  // namespace tangram::plan::detail

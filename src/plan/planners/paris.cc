// The core of PARIS (Kim et al., DAC 2022) for one model.
//
// Small slices are efficient for small batches, large ones are needed for large batches. The knee of a size is the
// smallest batch that already uses it well; each size serves the batches between the knee of the next smaller size and
// its own.

#include "plan/planners/paris.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace tangram::plan {
namespace {

// The smallest batch at which the utilisation of the size reaches the knee. Utilisation is throughput divided by the
// highest throughput of that size at any batch.
std::int64_t knee_of(const ParisProblem& problem, std::size_t size) {
  const auto batch_max = static_cast<std::int64_t>(problem.batch_share.size());
  double best = 0;
  for (std::int64_t b = 1; b <= batch_max; ++b) best = std::max(best, static_cast<double>(b) / problem.run_s(size, b));
  for (std::int64_t b = 1; b <= batch_max; ++b) {
    if (static_cast<double>(b) / problem.run_s(size, b) >= problem.knee * best) return b;
  }
  return batch_max;
}

// Busy seconds per query that the batches of each size bring.
std::vector<double> busy_seconds(const ParisProblem& problem, const std::vector<std::int64_t>& knees) {
  std::vector<double> busy(problem.sizes.size(), 0);
  const auto batch_max = static_cast<std::int64_t>(problem.batch_share.size());
  std::int64_t from = 1;
  for (std::size_t i = 0; i < busy.size(); ++i) {
    // A knee below that of the smaller neighbour is raised to it, so that segments never overlap. The largest size
    // gets all remaining batches.
    const std::int64_t to = i + 1 == busy.size() ? batch_max : std::max(from - 1, knees[i]);
    for (std::int64_t b = from; b <= to; ++b) {
      busy[i] += problem.batch_share[static_cast<std::size_t>(b - 1)] * problem.run_s(i, b);
    }
    from = std::max(from, to + 1);
  }
  return busy;
}

}  // namespace

ParisAnswer paris(const ParisProblem& problem) {
  TANGRAM_CHECK(!problem.sizes.empty() && !problem.batch_share.empty(), "PARIS needs sizes and batches");
  ParisAnswer answer;
  for (std::size_t i = 0; i < problem.sizes.size(); ++i) answer.knees.push_back(knee_of(problem, i));
  const auto busy = busy_seconds(problem, answer.knees);
  double load = 0;
  for (std::size_t i = 0; i < busy.size(); ++i) load += problem.sizes[i] * busy[i];

  std::vector<double> fraction(busy.size());
  int left = problem.compute_slices;
  for (std::size_t i = 0; i < busy.size(); ++i) {
    // Counts proportional to busy time fill all sizes equally; `load` is in compute slices, so the counts use up the
    // budget.
    const double exact = busy[i] * problem.compute_slices / load;
    answer.counts.push_back(static_cast<int>(exact));
    fraction[i] = exact - std::floor(exact);
    left -= answer.counts[i] * problem.sizes[i];
  }
  std::vector<std::size_t> order(busy.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return fraction[a] > fraction[b]; });
  for (const std::size_t i : order) {
    if (fraction[i] <= 0 || problem.sizes[i] > left) continue;
    ++answer.counts[i];
    left -= problem.sizes[i];
  }
  // Budget that no fraction claims goes to the largest size that still fits and is in use.
  for (std::size_t i = busy.size(); i-- > 0;) {
    while (busy[i] > 0 && problem.sizes[i] <= left) {
      ++answer.counts[i];
      left -= problem.sizes[i];
    }
  }
  return answer;
}

}  // namespace tangram::plan

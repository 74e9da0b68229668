// Columns: the factor, devices by cut, and the requests a second of each class of sizes on each kind of slice.
//
// Sizes are put together in classes, each at the cost of its cheapest size, so that the bound stays a bound and the
// program small.

#include "plan/work_bound.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/layout.h"
#include "plan/detail/linear_program.h"

namespace tangram::plan {
namespace {

using detail::kUnbounded;
using detail::LinearProgram;

constexpr std::size_t kClasses = 64;  // Of sizes.

struct SizeClass {
  double share = 0;
  std::vector<double> seconds;  // A request takes of a slice, by kind; infinite: it does not run there in time.
};

// The least time that a request of each size takes on each kind.
std::vector<SizeClass> costs_by_size(const Problem& problem, const Stock& stock, std::size_t service) {
  std::vector<SizeClass> sizes;
  for (const auto& [size, share] : size_shares(problem.workload.services[service])) {
    SizeClass entry{share, {}};
    for (std::size_t kind = 0; kind < stock.kinds.size(); ++kind) {
      const auto best = best_batch(problem, stock, service, kind, 1, size, std::numeric_limits<double>::max());
      entry.seconds.push_back(best.batch > 0 ? 1 / best.rate_per_s : kUnbounded);
    }
    sizes.push_back(std::move(entry));
  }
  // A request may be padded: where a larger size is predicted to be cheaper, it costs no more than that.
  for (std::size_t i = sizes.size(); i-- > 1;) {
    for (std::size_t k = 0; k < stock.kinds.size(); ++k) {
      sizes[i - 1].seconds[k] = std::min(sizes[i - 1].seconds[k], sizes[i].seconds[k]);
    }
  }
  return sizes;
}

// Neighbouring sizes together, so that each class but the last has at least its part of the requests.
std::vector<SizeClass> classes_of(const std::vector<SizeClass>& sizes) {
  std::vector<SizeClass> classes;
  for (const SizeClass& size : sizes) {
    if (classes.empty() || classes.back().share >= 1.0 / kClasses) {
      classes.push_back(size);
      continue;
    }
    // Costs grow with the size, so the first of the class is the cheapest.
    classes.back().share += size.share;
  }
  return classes;
}

}  // namespace

double work_bound(const Problem& problem, const Stock& stock, int devices, double lost) {
  LinearProgram program;
  const int factor = program.add_column({.cost = -1, .entries = {}});
  std::vector<int> time_rows;
  Geometry geometry = stock.geometries.front();
  geometry.profiles.clear();
  for (std::size_t kind = 0; kind < stock.kinds.size(); ++kind) {
    time_rows.push_back(program.add_row(-kUnbounded, 0));
    geometry.profiles.push_back(stock.profile(kind));
  }
  const auto cuts = pareto_multisets(geometry);
  if (!cuts) return 0;
  const int devices_row = program.add_row(-kUnbounded, devices);
  for (const auto& cut : *cuts) {
    LinearProgram::Column column{.entries = {{devices_row, 1}}};
    for (std::size_t kind = 0; kind < cut.size(); ++kind) {
      if (cut[kind] > 0) column.entries.push_back({time_rows[kind], -static_cast<double>(cut[kind])});
    }
    program.add_column(std::move(column));
  }
  for (std::size_t s = 0; s < problem.workload.services.size(); ++s) {
    const double rate = planning_rate_per_s(problem.workload.services[s]) * samples_mean(problem.workload.services[s]);
    const int served_row = program.add_row(0, kUnbounded);
    program.columns[static_cast<std::size_t>(factor)].entries.push_back({served_row, -(1 - lost) * rate});
    for (const SizeClass& sizes : classes_of(costs_by_size(problem, stock, s))) {
      const int arriving_row = program.add_row(-kUnbounded, 0);
      program.columns[static_cast<std::size_t>(factor)].entries.push_back({arriving_row, -sizes.share * rate});
      for (std::size_t kind = 0; kind < stock.kinds.size(); ++kind) {
        if (sizes.seconds[kind] == kUnbounded) continue;
        program.add_column({.entries = {{time_rows[kind], sizes.seconds[kind]}, {served_row, 1}, {arriving_row, 1}}});
      }
    }
  }
  const auto answer = detail::solve_linear(program);
  return answer.optimal ? -answer.objective : 0;
}

}  // namespace tangram::plan

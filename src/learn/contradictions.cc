// Finds measurements that cannot all be true, before they are learnt from.
//
// Three tests, from certain to probable: more memory than the slice has, an out-of-memory run that a more demanding run
// contradicts, and two latencies further apart than the work between them explains. Example: a file that mixes seconds
// and milliseconds has pairs a factor of about 1000 apart.

#include "learn/contradictions.h"

#include <algorithm>
#include <map>

#include "base/math.h"
#include "core/geometry.h"
#include "learn/candidate.h"
#include "learn/models/analytic_fit.h"

namespace tangram::learn {
namespace {

// What a run demands of memory. It covers another run if it is at least as large in batch, size and processes on a
// slice with no more memory: if it fits, the other must fit too.
struct Demand {
  std::size_t index = 0;
  Features features;

  bool covers(const Demand& other) const {
    return features.bandwidth <= other.features.bandwidth && features.batch >= other.features.batch &&
           features.size >= other.features.size && features.processes >= other.features.processes;
  }
};

// Keeps the Pareto front of the runs that fitted. A covered run proves nothing that the covering run does not prove, so
// each failure is compared with a few runs, however many there are.
void keep(std::vector<Demand>& front, const Demand& demand) {
  if (std::ranges::any_of(front, [&](const Demand& other) { return other.covers(demand); })) return;
  std::erase_if(front, [&](const Demand& other) { return demand.covers(other); });
  front.push_back(demand);
}

struct Timed {
  std::size_t index = 0;
  Features features;
  double log_ms = 0;
};

double log_growth(double from, double to) { return to > from ? math::log(to / from) : 0; }

// The largest factor, as a logarithm, by which `a` may take longer than `b` because of its work: in proportion to batch
// and processes, with the square of the size, and inversely to the slice.
double growth_allowed(const Features& a, const Features& b) {
  return std::max(log_growth(a.compute, b.compute), log_growth(a.bandwidth, b.bandwidth)) +
         log_growth(b.batch, a.batch) + 2 * log_growth(b.size, a.size) + log_growth(b.processes, a.processes);
}

// By how much two runs contradict each other, as a logarithm; negative where the work explains them.
double mismatch(const Timed& a, const Timed& b) {
  return std::max(a.log_ms - b.log_ms - growth_allowed(a.features, b.features),
                  b.log_ms - a.log_ms - growth_allowed(b.features, a.features));
}

struct MismatchEdge {
  std::size_t other = 0;
  double log_factor = 0;
};
using MismatchGraph = std::vector<std::vector<MismatchEdge>>;

// An edge for each pair that is further apart than kMismatchFactor. Large tables are sampled with a stride, so the cost
// is at most about runs * kMismatchCompared.
MismatchGraph mismatch_graph(const std::vector<Timed>& runs) {
  MismatchGraph graph(runs.size());
  const double limit = math::log(kMismatchFactor);
  const std::size_t stride = runs.size() / kMismatchCompared + 1;
  for (std::size_t a = 0; a < runs.size(); ++a) {
    for (std::size_t b = a + 1; b < runs.size(); b += stride) {
      const double log_factor = mismatch(runs[a], runs[b]);
      if (log_factor <= limit) continue;
      graph[a].push_back({b, log_factor});
      graph[b].push_back({a, log_factor});
    }
  }
  return graph;
}

// Greedy vertex cover: removes the run with the most contradictions until none is left. One wrong run contradicts many
// sound ones, so the greedy choice names the wrong one. An exact cover is NP-hard.
void add_mismatches(const std::vector<Timed>& runs, std::vector<Mismatch>& found) {
  const MismatchGraph graph = mismatch_graph(runs);
  std::vector<std::size_t> degree;
  for (const auto& edges : graph) degree.push_back(edges.size());
  while (!degree.empty()) {
    const auto most = static_cast<std::size_t>(std::ranges::max_element(degree) - degree.begin());
    if (degree[most] == 0) return;
    // The run leaves the graph, and its neighbours lose one contradiction each.
    degree[most] = 0;
    for (const auto& edge : graph[most]) degree[edge.other] -= degree[edge.other] > 0 ? 1 : 0;
    const auto& worst = *std::ranges::max_element(graph[most], {}, &MismatchEdge::log_factor);
    found.push_back({runs[most].index, runs[worst.other].index, math::exp(worst.log_factor)});
  }
}

}  // namespace

std::vector<Overfull> overfull_of(const Measurements& measurements) {
  constexpr double kMibPerGib = 1024;
  std::vector<Overfull> found;
  for (std::size_t i = 0; i < measurements.size(); ++i) {
    const Measurement& m = measurements[i];
    const Geometry* geometry = find_geometry(m.device);
    if (geometry == nullptr || m.out_of_memory() || !m.memory_mib) continue;
    const auto profile = find_profile(*geometry, m.mig_profile);
    if (!profile || geometry->profiles[*profile].memory_gib.evidence == Evidence::unknown) continue;
    const double slice_mib = kMibPerGib * geometry->profiles[*profile].memory_gib.value;
    // No tolerance: the published capacity is more than a run can use.
    if (*m.memory_mib > slice_mib) found.push_back({i, slice_mib});
  }
  return found;
}

std::vector<Mismatch> mismatches_of(const Measurements& measurements) {
  // Only runs of one model on one device can contradict each other.
  std::map<Target, std::vector<Timed>> timed;
  for (std::size_t i = 0; i < measurements.size(); ++i) {
    if (measurements[i].out_of_memory()) continue;
    if (const auto features = features_of(measurements[i].device, candidate_of(measurements[i]))) {
      timed[target_of(measurements[i])].push_back({i, *features, math::log(*measurements[i].latency_ms)});
    }
  }
  std::vector<Mismatch> found;
  for (const auto& [target, runs] : timed) add_mismatches(runs, found);
  std::ranges::sort(found, {}, &Mismatch::run);
  return found;
}

std::vector<Contradiction> contradictions_of(const Measurements& measurements) {
  std::map<Target, std::vector<Demand>> fronts;
  std::vector<Demand> failed;
  for (std::size_t i = 0; i < measurements.size(); ++i) {
    const auto features = features_of(measurements[i].device, candidate_of(measurements[i]));
    if (!features) continue;
    if (measurements[i].out_of_memory()) {
      failed.push_back({i, *features});
    } else {
      keep(fronts[target_of(measurements[i])], {i, *features});
    }
  }
  std::vector<Contradiction> found;
  for (const auto& demand : failed) {
    const auto& front = fronts[target_of(measurements[demand.index])];
    const auto other = std::ranges::find_if(front, [&](const Demand& fitted) { return fitted.covers(demand); });
    if (other != front.end()) found.push_back({demand.index, other->index});
  }
  return found;
}

}  // namespace tangram::learn

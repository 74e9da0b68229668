#include "learn/contradictions.h"

#include <algorithm>
#include <map>

#include "learn/candidate.h"
#include "learn/models/analytic_fit.h"

namespace tangram::learn {
namespace {

// What a run asks of memory: it is at least as demanding as another if no number is smaller, and the slice no larger.
struct Demand {
  std::size_t index = 0;
  Features features;

  bool covers(const Demand& other) const {
    return features.bandwidth <= other.features.bandwidth && features.batch >= other.features.batch &&
           features.size >= other.features.size && features.processes >= other.features.processes;
  }
};

// Runs that fitted, without those that a more demanding one makes redundant: few, however many runs there are.
void keep(std::vector<Demand>& front, const Demand& demand) {
  if (std::ranges::any_of(front, [&](const Demand& other) { return other.covers(demand); })) return;
  std::erase_if(front, [&](const Demand& other) { return demand.covers(other); });
  front.push_back(demand);
}

}  // namespace

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

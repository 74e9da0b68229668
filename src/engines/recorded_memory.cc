// Estimates the memory of a run from measurements: linear in the batch, since weights are constant and activations grow
// with it, and infinite where an equal or smaller run was out of memory.
#include "engines/recorded_memory.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace tangram::engines {
namespace {

// Interpolates between the two measured batches around `batch`, or extrapolates from the nearest two.
double along(const std::map<std::int64_t, double>& by_batch, std::int64_t batch) {
  auto high = by_batch.lower_bound(batch);
  if (high == by_batch.end()) high = std::prev(high);
  if (high->first == batch || by_batch.size() == 1) return high->second;
  if (high == by_batch.begin()) high = std::next(high);
  const auto low = std::prev(high);
  const double slope = (high->second - low->second) / static_cast<double>(high->first - low->first);
  return std::max(0.0, low->second + slope * static_cast<double>(batch - low->first));
}

}  // namespace

RecordedMemory::RecordedMemory(const Measurements& measurements) {
  for (const auto& m : measurements) {
    const Where where{m.device, m.mig_profile, m.model};
    if (m.out_of_memory()) failed_[where].push_back({m.batch, m.size, m.processes});
    if (m.memory_mib && !m.out_of_memory()) measured_[{where, m.size, m.processes}][m.batch] = *m.memory_mib;
  }
}

std::optional<double> RecordedMemory::mib(const RunPoint& point) const {
  const Where where{point.device, point.mig_profile, point.model};
  if (const auto failed = failed_.find(where); failed != failed_.end()) {
    // Memory grows with batch, size and processes, so a run that is no smaller in any of them fails as well.
    const bool unrecoverable = std::ranges::any_of(failed->second, [&](const Failed& f) {
      return point.batch >= f.batch && point.size >= f.size && point.processes >= f.processes;
    });
    if (unrecoverable) return std::numeric_limits<double>::infinity();
  }
  const auto series = measured_.find({where, point.size, point.processes});
  if (series == measured_.end()) return std::nullopt;
  return along(series->second, point.batch);
}

}  // namespace tangram::engines

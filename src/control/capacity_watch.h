// Watches what services can take while a plan moves, and says which of them fell short of what is needed, by how much
// and for how long.
//
// Capacity is measured as the scheduler does it: all slices that serve now, running full batches, for the mix of sizes
// that is planned for. A service that is short by this measure is short by any.
//
// Example: 30 requests/s are needed, of one bucket of which two slices run batches of 4 in 100 ms, so that they take
// 80/s. While one of them is cut, 40/s are enough; while both are, the service is short by 30/s.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "control/demand.h"
#include "sched/state.h"

namespace tangram::control {

// Requests a second that the slices which serve now can take; 0 without any.
double capacity_per_s(const sched::State& state, ServiceId service, const SizeCounts& mix);

class CapacityWatch {
 public:
  struct Short {
    ServiceId service;
    double needed_per_s = 0;
    double lowest_per_s = 0;  // Capacity.
    Duration lasted{};        // All times below what is needed together.

    bool operator==(const Short&) const = default;
  };

  // A move begins; `needed` by ServiceId.
  void begin(std::vector<ServiceDemand> needed, TimePoint now);
  // Slices have come or gone, or time has passed.
  void note(const sched::State& state, TimePoint now);
  // Of the move that was begun last.
  const std::vector<Short>& shorts() const { return shorts_; }

 private:
  std::vector<ServiceDemand> needed_;
  std::vector<bool> below_;  // By service, since the last note.
  std::vector<Short> shorts_;
  TimePoint noted_at_;
};

}  // namespace tangram::control

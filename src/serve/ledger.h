// The counters of the LiveWorld: how requests ended, and what slices ran.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "core/request.h"
#include "serve/call.h"
#include "serve/tally.h"

namespace tangram::serve {

// A background request is counted apart, and in none of the other counters of its service.
class Ledger {
 public:
  // `wall_start_ms`: the wall clock at time zero, milliseconds since 1970.
  Ledger(std::size_t services, std::size_t slices, std::int64_t wall_start_ms)
      : wall_start_ms_(wall_start_ms), services_(services), slices_(slices) {}

  const std::vector<ServiceTally>& services() const { return services_; }
  const std::vector<SliceServed>& slices() const { return slices_; }

  // A request has ended. `never_in_time`: it was rejected as too late, and its time was too short for the run itself.
  void count_ended(const Call& call, const Outcome& outcome, bool never_in_time, TimePoint now);

  // A batch that a slice has answered.
  struct Batch {
    SliceId slice;
    ServiceId service;
    std::int32_t samples = 1;
    bool background = false;
    Duration took{};
  };
  void count_batch(const Batch& batch);
  // A batch started whose model had to be loaded.
  void count_cold_start(ServiceId service) { ++services_[service.index()].cold_starts; }
  // A batch ended without an answer. `own_fault`: the slice failed, rather than a remote server that had no room.
  void count_failed_batch(SliceId slice, Duration took, bool own_fault);
  void count_failure(SliceId slice) { ++slices_[slice.index()].failures; }
  void count_restart(SliceId slice) { ++slices_[slice.index()].restarts; }
  // The first start does not count as a restart.
  void forget_restarts(SliceId slice) { slices_[slice.index()].restarts = 0; }
  // Plans bring new slices.
  void grow(std::size_t slices) {
    if (slices > slices_.size()) slices_.resize(slices);
  }
  // Reloads bring new services.
  void grow_services(std::size_t services) { services_.resize(std::max(services, services_.size())); }

 private:
  std::int64_t wall_start_ms_;
  std::vector<ServiceTally> services_;
  std::vector<SliceServed> slices_;
};

}  // namespace tangram::serve

// Offline jobs beside the traffic: each keeps a constant number of rows queued or running.
//
// A row is a request in the background. When it is answered, the next one comes at once; when it is rejected, the next
// one comes after a pause, as in `tangram batch`. Rows are queued as kRow.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "core/request.h"
#include "core/workload.h"
#include "sim/arrivals.h"
#include "sim/event_queue.h"

namespace tangram::sim {

struct BackgroundJob {
  ServiceId service;
  std::size_t under_way = 64;
};

class OfflineRows {
 public:
  // `jobs` and `queue` outlive it.
  OfflineRows(const std::vector<BackgroundJob>& jobs, const Workload& workload, const Rng& rng, EventQueue& queue);

  // Queues the first rows of every job, at the beginning of time.
  void start();
  // The row that comes with a kRow of the job at `now`.
  Request arrive(std::uint32_t job, TimePoint now);
  // A row has been resolved at `now`: the next of its job is queued.
  void follow(const Request& row, OutcomeKind kind, TimePoint now);

 private:
  const std::vector<BackgroundJob>& jobs_;
  EventQueue& queue_;
  Rng rng_;
  std::vector<SizeSampler> samplers_;  // By job.
  std::uint64_t made_ = 0;
};

}  // namespace tangram::sim

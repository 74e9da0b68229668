// Offline jobs as a constant number of rows in progress.
//
// A job is a closed loop: each row that is resolved queues the next one. So a job uses whatever capacity the requests
// leave and never builds up a queue beyond `under_way`.

#include "sim/offline_rows.h"

#include "sched/background.h"
#include "sim/event_kind.h"

namespace tangram::sim {
namespace {

// How long a row waits before it is rejected and asked again, and the pause in between; the same as in `tangram batch`.
constexpr Duration kRowPatience = std::chrono::seconds(60);
constexpr Duration kRowRejectedPause = std::chrono::milliseconds(100);
// Rows are numbered from here, so that requests have the same numbers with and without offline jobs.
constexpr std::uint64_t kRowIds = std::uint64_t{1} << 40;

}  // namespace

OfflineRows::OfflineRows(const std::vector<BackgroundJob>& jobs, const Workload& workload, const Rng& rng,
                         EventQueue& queue)
    : jobs_(jobs), queue_(queue), rng_(rng.stream("rows")) {
  for (const auto& job : jobs) samplers_.emplace_back(workload.services[job.service.index()].input_size);
}

void OfflineRows::start() {
  for (std::uint32_t j = 0; j < jobs_.size(); ++j) {
    for (std::size_t n = 0; n < jobs_[j].under_way; ++n) queue_.push(kTimeZero, EventLane::arrival, kRow, j, 0);
  }
}

Request OfflineRows::arrive(std::uint32_t job, TimePoint now) {
  Request row;
  row.id = RequestId(kRowIds + made_++);
  row.service = jobs_[job].service;
  row.tenant = TenantId(job);  // Rows are not counted by tenant, so this field holds the job.
  row.priority = sched::kPriorityBackground;
  row.size = samplers_[job].draw(rng_);
  row.arrival = now;
  row.deadline = now + kRowPatience;
  return row;
}

void OfflineRows::follow(const Request& row, OutcomeKind kind, TimePoint now) {
  const bool answered = kind == OutcomeKind::served || kind == OutcomeKind::late;
  const TimePoint next = now + (answered ? Duration::zero() : kRowRejectedPause);
  // Also after a rejection: an offline job does not lose rows, it asks again.
  queue_.push(next, EventLane::arrival, kRow, row.tenant.value(), 0);
}

}  // namespace tangram::sim

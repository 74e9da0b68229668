// Counts what happens in a run: outcomes, queues, batches and busy time, by service, bucket, tenant and slice.
//
// Invariants: a request that joined a queue leaves it once for each time it joined; it joins on arrival and again when
// its batch fails, and leaves when it starts or is resolved without having run. Tallies go by bucket number, whatever
// its edges are at the time. Requests of the warm-up are in the queues and in nothing else. Rows of offline jobs count
// in slices only.
//
// The functions in this header run for every request; they stay small so that they cost no call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"
#include "core/request.h"
#include "sched/background.h"
#include "sched/state.h"
#include "sched/world.h"
#include "sim/metrics.h"

namespace tangram::sim {

struct MetricsConfig {
  std::size_t tenants = 1;
  std::uint64_t warmup_requests = 0;
  Duration duration = Duration::max();
  std::size_t timeline_steps = 0;  // 0: no time line. Needs a finite duration.
  std::size_t batches_recorded_max = 0;
  TrafficParts parts = {};
};

// A batch as it starts.
struct BatchStart {
  const sched::PoolService& entry;  // The service as its slice runs it.
  std::int64_t table_ns = 0;        // Its predicted mean, ...
  std::int64_t real_ns = 0;         // ... and how long it runs.
  TimePoint now;
};

class MetricsRecorder {
 public:
  // `state` outlives it and holds the first plan.
  MetricsRecorder(const sched::State& state, const MetricsConfig& config);

  // A request arrives and finds `waiting` others, of all services.
  void join(const Request& request, std::size_t waiting) {
    const std::size_t service = request.service.index();
    const bool counted = is_counted(request);
    if (counted) metrics_.queue_depth.add(waiting);
    QueueDepth& own = metrics_.queue_by_service[service];
    if (TimelineStep* step = step_of(service, request.arrival)) {
      step->queue_max = std::max(step->queue_max, static_cast<std::uint32_t>(own.waiting));
    }
    own.join(counted);
    if (is_bucketed(service)) bucket_queue(request).join(counted);
    if (config_.tenants > 1) metrics_.queue_by_tenant[request.tenant.index()].join(counted);
  }

  // A request is no longer queued: its batch starts, or it is resolved without one.
  void leave(const Request& request) {
    if (sched::is_background(request)) return;
    metrics_.queue_by_service[request.service.index()].leave();
    if (is_bucketed(request.service.index())) bucket_queue(request).leave();
    if (config_.tenants > 1) metrics_.queue_by_tenant[request.tenant.index()].leave();
  }

  // The batch of these requests has failed: they are queued again, or resolved as if they were.
  void rejoin(std::span<const Request* const> members);

  // The members of a batch leave their queues, and it starts. grow_slices() has made room for its slice.
  void start(const sched::Batch& batch, const BatchStart& how);
  // The batch of a slice has ended after `took`, of which `counts` counts as busy time; `ok` if it was answered.
  void end(std::size_t slice, Duration took, Duration counts, bool ok);
  // A request that is no row has been resolved.
  void resolve(const Request& request, const Outcome& outcome, const sched::Batch* batch, TimePoint now);

  // Called around Scheduler::on_plan_ready: before it slices are named and buckets added, after it queues are
  // recounted.
  void before_plan(const sched::Deployment& next);
  void after_plan();

  // Makes room for slices up to this number.
  void grow_slices(std::size_t count);
  const std::vector<QueueDepth>& queue_by_service() const { return metrics_.queue_by_service; }

  // Everything that was counted, in its final form; nothing may be counted any more.
  Metrics take();

 private:
  // The batch that a slice runs.
  struct Running {
    double useful_ns = 0;  // If it succeeds.
    std::int64_t padded_size = 1;
  };

  struct BestUnit {
    const sched::PoolService* entry;
    std::size_t bucket;
    double unit_ns;
  };

  bool is_counted(const Request& request) const { return request.id.value() >= config_.warmup_requests; }
  // False where the queue of the service is that of its only bucket, so that counting once suffices.
  bool is_bucketed(std::size_t service) const { return metrics_.queue_by_bucket[service].size() > 2; }
  // The bucket of the request; the number of edges if it is larger than all.
  std::size_t bucket_of(const Request& request) const;
  QueueDepth& bucket_queue(const Request& request);
  // The step of the time line that holds `at`, or null.
  TimelineStep* step_of(std::size_t service, TimePoint at) {
    auto& timeline = metrics_.timeline;
    if (timeline.empty()) return nullptr;
    const auto index = static_cast<std::size_t>(at.time_since_epoch() / metrics_.timeline_step);
    return index < timeline[service].size() ? &timeline[service][index] : nullptr;
  }

  // A plan may have more buckets than the last; tallies are never taken away.
  void extend_buckets(const sched::Deployment& deployment);
  // Ensures that queue_by_bucket matches the queues of the scheduler under its present edges.
  void recount_buckets();
  // Nanoseconds per sample at the batch size that uses the slice best: what a full slice needs.
  double best_unit_ns(const sched::PoolService& entry, std::size_t bucket);
  // Each adds one resolved request to its counts. count_in_slice() requires an answered one.
  void count_in(Tally& tally, const Request& request, const Outcome& outcome, const sched::Batch* batch,
                TimePoint now) const;
  void count_in_slice(std::size_t slice, const Request& request, const Outcome& outcome, TimePoint now);
  void count_in_timeline(const Request& request, const Outcome& outcome);

  const sched::State& state_;
  MetricsConfig config_;
  Metrics metrics_;
  std::vector<Running> running_;      // By slice.
  std::vector<BestUnit> best_units_;  // Of the plan in force; entries are known by their address.
};

}  // namespace tangram::sim

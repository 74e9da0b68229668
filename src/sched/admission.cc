// Bounds on when a request can end, from which admission decides. All are cheap: one look per pool of the service.
#include "sched/admission.h"

namespace tangram::sched {

// `present` counts slices that are away as well. A request that must wait for a slice to come back may still be
// served: its deadline decides, not this function.
RejectReason why_never(const View& view, const Request& request, std::uint32_t bucket) {
  RejectReason reason = RejectReason::too_large;
  const bool comes = any_pool_that_takes(view, request, bucket, [&](PoolId pool) {
    reason = RejectReason::no_capacity;
    return view.pool(pool).present > 0;
  });
  return comes ? RejectReason::none : reason;
}

bool serves_now(const View& view, const Request& request, std::uint32_t bucket) {
  return any_pool_that_takes(view, request, bucket, [&](PoolId pool) { return !view.pool(pool).by_free_time.empty(); });
}

// All terms are lower bounds: the mean instead of the p99, full batches, and a slice that is free first. A bound that
// is too low admits a request that ends late; one that is too high would reject requests that could have been served,
// and nothing would ever show it.
TimePoint earliest_finish(const View& view, const Request& request, std::uint32_t bucket) {
  TimePoint best = kTimeNever;
  const Duration drain = view.backlog_before(request) + view.drain(request, bucket);
  for (const PoolId pool : view.service(request.queue).pools) {
    const PoolState& slices = view.pool(pool);
    const PoolService& entry = *view.pool_service(pool, request.queue);
    if (slices.by_free_time.empty() || !entry.takes(bucket, request.samples)) continue;
    const Duration wait =
        slices.idle.count > 0 ? Duration::zero() : view.wait_for(view.slice(slices.by_free_time.front()));
    const Duration run = view.mean(pool, entry, bucket, request.samples);
    best = std::min(best, view.now() + wait + std::max(drain, run));
  }
  return best;
}

// By the table alone, without corrections: the answer is about the plan and the client, not about today's run times.
bool could_be_in_time(const View& view, const Request& request) {
  const std::uint32_t bucket = view.bucket_of(request);
  if (bucket == view.service(request.queue).edges.size()) return true;
  bool taken = false;
  const bool in_time = any_pool_that_takes(view, request, bucket, [&](PoolId pool) {
    taken = true;
    const PoolService& entry = *view.pool_service(pool, request.queue);
    return entry.latency.mean_ns(bucket, request.samples) <= (view.last_deadline(request) - request.arrival).count();
  });
  return in_time || !taken;
}

}  // namespace tangram::sched

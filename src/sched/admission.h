// Whether the slices can answer a request by its last deadline: what is rejected at once, and why.
//
// Functions of the View, without memory of their own: the scheduler asks them when a request arrives, and a World may
// ask them before it hands one over. They are optimistic: a request that is rejected here could not have been in time,
// while one that passes may still turn out late. `bucket` is always a bucket of the request's service.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/request.h"
#include "sched/policy.h"

namespace tangram::sched {

// Whether `holds(PoolId)` is true for any pool whose plan takes the request.
template <typename Holds>
bool any_pool_that_takes(const View& view, const Request& request, std::uint32_t bucket, const Holds& holds) {
  for (const PoolId pool : view.service(request.queue).pools) {
    if (view.pool_service(pool, request.queue)->takes(bucket, request.samples) && holds(pool)) return true;
  }
  return false;
}

// Why no slice will ever take the request: too_large if no pool takes it, no_capacity if those that do have no slice
// any more. None if some slice takes it, now or when it is back from training, a restart or a re-cut.
RejectReason why_never(const View& view, const Request& request, std::uint32_t bucket);

// True if a slice that takes the request serves now, busy or idle.
bool serves_now(const View& view, const Request& request, std::uint32_t bucket);

// When the request could be answered if it joined the requests that wait now, or kTimeNever if no slice that takes it
// serves now. Each pool is looked at by its slice that is free first. What waits and runs before the request must also
// have drained through all slices of the service at full batches; the request may share its batch with the backlog, so
// the two times are not added. Requests that run after it do not count: neither those of lower priority nor those that
// have more time.
TimePoint earliest_finish(const View& view, const Request& request, std::uint32_t bucket);

// False for a request whose time is shorter than its mean run time on the fastest slice of the plan, were that idle: it
// is rejected at any load. True if no slice takes it, which is another reason to reject it.
bool could_be_in_time(const View& view, const Request& request);

namespace detail {

// Whether some slice of the pool is free after `wait_max` at the latest. Where nothing is `bound` to slices, any slice
// of the heap that is free by then answers as well as the first, and the heap need not be put in order for it.
inline bool has_slice_within(const View& view, const PoolState& slices, Duration wait_max, bool bound) {
  if (!bound && view.wait_for(view.slice(slices.by_free_time.any())) <= wait_max) return true;
  return view.wait_for(view.slice(slices.by_free_time.front())) <= wait_max;
}

// may_end_in_time, with this much that waits before the request.
inline bool fits_behind(const View& view, const Request& request, std::uint32_t bucket, bool bound, Duration backlog) {
  const Duration left = view.last_deadline(request) - view.now();
  const Duration drain = backlog + view.drain(request, bucket);
  if (drain > left) return false;
  for (const PoolId pool : view.service(request.queue).pools) {
    const PoolState& slices = view.pool(pool);
    const PoolService& entry = *view.pool_service(pool, request.queue);
    if (slices.by_free_time.empty() || !entry.takes(bucket, request.samples)) continue;
    const Duration run = view.mean(pool, entry, bucket, request.samples);
    if (run > left) continue;
    if (slices.idle.count > 0 || has_slice_within(view, slices, left - std::max(drain, run), bound)) return true;
  }
  return false;
}

}  // namespace detail

// Whether earliest_finish is not after the last deadline. `bound`: the policy binds requests to slices. Inline because
// it is asked for every request and mostly answered by the first pool.
inline bool may_end_in_time(const View& view, const Request& request, std::uint32_t bucket, bool bound) {
  const Duration all = view.backlog(request.queue);
  if (detail::fits_behind(view, request, bucket, bound, all)) return true;
  // Only now is it worth looking at which of them run before it.
  const Duration before = all == Duration::zero() ? all : view.backlog_before(request);
  return before < all && detail::fits_behind(view, request, bucket, bound, before);
}

}  // namespace tangram::sched

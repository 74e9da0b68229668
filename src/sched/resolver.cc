// Every request ends here exactly once: the World gets the outcome, and a stored record goes back to the store.
#include "sched/resolver.h"

#include "sched/admission.h"

namespace tangram::sched {

// Its own deadline is over, so nothing waits before it; but sent again, it would wait behind all that were sent before.
void Resolver::reject_late(Waiting* waiting) {
  Request again = waiting->request;
  again.id = RequestId(UINT64_MAX);
  again.deadline = add_saturating(state_.now, again.deadline - again.arrival);
  reject(waiting, RejectReason::too_late, earliest_finish(view_, again, waiting->bucket));
}

void Resolver::fail(Waiting* waiting) {
  world_.resolve(waiting->request, {OutcomeKind::failed, RejectReason::none, kTimeNever}, nullptr);
  state_.store.give_back(waiting);
}

// Not every rejection says that the service is short of slices. One that is too large, or more than the service was
// planned for, says nothing. One that comes too
// late counts only if an idle slice could have run it within the time it had when it arrived: a client that allows 1 ms
// for a run of 5 ms is rejected at any load.
//
// A request may also be rejected although a slice is idle and the plan's own p99 fits: then a correction of the
// prediction is to blame. If the correction came from one stalled run, nothing would be measured again and the bucket
// would be blocked for good, so each such rejection moves the correction a step back towards the prediction.
void Resolver::note_rejected(const Request& request, RejectReason reason) {
  const std::uint32_t bucket = view_.bucket_of(request);
  bool is_loss =
      reason != RejectReason::too_late && reason != RejectReason::too_large && reason != RejectReason::over_rate;
  for (const PoolId pool : view_.service(request.queue).pools) {
    const PoolService& entry = *view_.pool_service(pool, request.queue);
    if (reason != RejectReason::too_late || !entry.takes(bucket, request.samples)) continue;
    const std::int64_t mean = entry.latency.mean_ns(bucket, request.samples);
    const std::int64_t p99 = entry.latency.p99_ns(bucket, request.samples);
    is_loss |= mean <= (request.deadline - request.arrival).count();
    const bool idle = view_.pool(pool).idle.count > 0 && view_.backlog(request.queue) == Duration::zero();
    if (!idle || p99 > (request.deadline - state_.now).count()) continue;
    state_.corrections.doubt(view_.row_of(pool, entry), bucket, request.samples,
                             static_cast<double>(p99) / static_cast<double>(mean) - 1);
  }
  if (!is_loss) return;
  if (!is_beyond_share(request)) state_.services[request.queue.index()].share.note_loss();
  state_.services[request.queue.index()].note_resolved(true);
  if (state_.background != nullptr && reason == RejectReason::too_late) {
    state_.background->on_online_loss(request.queue, state_.now);
  }
}

}  // namespace tangram::sched

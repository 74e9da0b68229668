// Clockwork (Gujarati et al., OSDI 2020): every run has a window, and what cannot end inside it is not begun.
//
// The latest start of a request on a slice is its deadline less the predicted p99 there. A request whose latest start
// on the fastest slice has passed is dropped at once; a slice takes, of the requests that it can end in time, the one
// whose latest start comes first, in the largest batch that keeps that deadline.

#include "sched/policy.h"

namespace tangram::sched {
namespace {

class Clockwork final : public Policy {
 public:
  explicit Clockwork(const PolicyConfig& config) : merge_(config.merge), drop_(config.drop_unrecoverable) {}

  bool gives_up() const override { return drop_; }

  Choice on_waiting(const View& view, LaneId id) override {
    const Lane& lane = view.lane(id);
    bool possible = false;
    for (const PoolId pool : view.service(lane.service).pools) {
      if (view.pool(pool).present == 0 || !in_time(view, pool, id)) continue;
      possible = true;
      if (const auto idle = view.idle_slice(pool)) return batch(view, *idle, id);
    }
    // A busy slice can still end it in time if it becomes free soon enough.
    if (possible) return Choice::wait();
    return lane.late ? serve_late(view, id) : set_aside(view, id);
  }

  Choice on_idle(const View& view, SliceId slice) override {
    const PoolId pool = view.slice(slice).place.pool;
    std::optional<LaneId> first;
    std::optional<LaneId> late;
    TimePoint first_start = kTimeNever;
    for (const auto& entry : view.pool_data(pool).services) {
      view.each_occupied_lane(entry.service, [&](LaneId id, const Lane& lane) {
        if (lane.late && batch_in_time(view, pool, id, false) > 0 &&
            (!late || lane.queue.front()->request.deadline < view.lane(*late).queue.front()->request.deadline)) {
          late = id;
        }
        if (lane.late || !in_time(view, pool, id)) return;
        const TimePoint start = latest_start(view, pool, entry, id);
        if (start >= first_start) return;
        first_start = start;
        first = id;
      });
    }
    if (first) return batch(view, slice, *first);
    if (late) return batch(view, slice, *late);
    return drop_or_wait(view, pool);
  }

 private:
  Choice batch(const View& view, SliceId slice, LaneId lane) const {
    const PoolId pool = view.slice(slice).place.pool;
    Choice choice = Choice::start(slice, lane, batch_in_time(view, pool, lane, merge_));
    if (merge_) fill_across_samples(view, pool, Duration::max(), &choice);
    return choice;
  }

  // Rejects the first request of the lane, which cannot be in time, unless its service answers late requests, too.
  Choice set_aside(const View& view, LaneId id) const {
    const bool answers_late = !drop_ || view.service(view.lane(id).service).slo.late_limit > 1;
    return answers_late ? Choice::demote(id) : Choice::drop(id);
  }

  // With nothing in time for this slice, requests that no slice can end in time must not block the front of a queue.
  Choice drop_or_wait(const View& view, PoolId pool) const {
    Choice choice = Choice::wait();
    for (const auto& entry : view.pool_data(pool).services) {
      view.each_occupied_lane(entry.service, [&](LaneId id, const Lane& lane) {
        if (choice.kind != Choice::Kind::wait || lane.late) return;
        for (const PoolId other : view.service(lane.service).pools) {
          if (view.pool(other).present > 0 && in_time(view, other, id)) return;
        }
        choice = set_aside(view, id);
      });
    }
    return choice;
  }

  // Late requests take the largest idle slice: it ends them soonest.
  Choice serve_late(const View& view, LaneId id) const {
    const auto& pools = view.service(view.lane(id).service).pools;
    for (std::size_t i = pools.size(); i-- > 0;) {
      const auto idle = view.idle_slice(pools[i]);
      if (!idle) continue;
      if (const auto take = batch_in_time(view, pools[i], id, merge_)) return Choice::start(*idle, id, take);
    }
    return Choice::wait();
  }

  static TimePoint latest_start(const View& view, PoolId pool, const PoolService& entry, LaneId id) {
    const Lane& lane = view.lane(id);
    const Request& first = lane.queue.front()->request;
    return first.deadline - view.p99(pool, entry, lane.bucket, first.samples);
  }

  static bool in_time(const View& view, PoolId pool, LaneId id) {
    const Lane& lane = view.lane(id);
    if (lane.late) return false;
    const PoolService* entry = view.pool_service(pool, lane.service);
    if (entry == nullptr || !entry->takes(lane.bucket, lane.queue.front()->request.samples)) return false;
    return view.now() <= latest_start(view, pool, *entry, id);
  }

  bool merge_;
  bool drop_;
};

}  // namespace

std::unique_ptr<Policy> make_clockwork(const PolicyConfig& config) { return std::make_unique<Clockwork>(config); }

}  // namespace tangram::sched

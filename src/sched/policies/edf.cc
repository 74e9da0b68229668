// Earliest deadline first. The batch grows while the request that must finish first still can: one more member is
// welcome only if the predicted p99 of the larger batch keeps that deadline. Among idle slices the fastest is taken.

#include "sched/policy.h"

namespace tangram::sched {
namespace {

class Edf final : public Policy {
 public:
  explicit Edf(const PolicyConfig& config) : merge_(config.merge) {}

  Choice on_waiting(const View& view, LaneId lane) override {
    const auto& pools = view.service(view.lane(lane).service).pools;
    for (std::size_t i = pools.size(); i-- > 0;) {  // Pools stand smallest first.
      const auto idle = view.idle_slice(pools[i]);
      if (!idle) continue;
      if (const auto take = batch_in_time(view, pools[i], lane, merge_)) return batch(view, *idle, lane, take);
    }
    return Choice::wait();
  }

  Choice on_idle(const View& view, SliceId slice) override {
    const PoolId pool = view.slice(slice).place.pool;
    std::optional<LaneId> first;
    for (const auto& entry : view.pool_data(pool).services) {
      view.each_occupied_lane(entry.service, [&](LaneId id, const Lane& lane) {
        if (first && view.lane(*first).queue.front()->request.deadline <= lane.queue.front()->request.deadline) return;
        // Zero means that the slice does not take the request at all.
        if (batch_in_time(view, pool, id, false) > 0) first = id;
      });
    }
    if (!first) return Choice::wait();
    return batch(view, slice, *first, batch_in_time(view, pool, *first, merge_));
  }

 private:
  Choice batch(const View& view, SliceId slice, LaneId lane, std::uint32_t count) const {
    Choice choice = Choice::start(slice, lane, count);
    if (merge_) fill_across_samples(view, view.slice(slice).place.pool, Duration::max(), &choice);
    return choice;
  }

  bool merge_;
};

}  // namespace

std::unique_ptr<Policy> make_edf(const PolicyConfig& config) { return std::make_unique<Edf>(config); }

}  // namespace tangram::sched

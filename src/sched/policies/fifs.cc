// First idle, first served: one queue in order of arrival; a request goes to the slice that has been idle longest, or
// waits for the first to fall idle. Blind to sizes and deadlines, it is the baseline of PARIS and ELSA.

#include "sched/policy.h"

namespace tangram::sched {
namespace {

class Fifs final : public Policy {
 public:
  explicit Fifs(const PolicyConfig& config) : merge_(config.merge) {}

  Choice on_waiting(const View& view, LaneId lane) override {
    std::optional<SliceId> longest;
    std::uint32_t count = 0;
    for (const PoolId pool : view.service(view.lane(lane).service).pools) {
      const auto idle = view.idle_slice(pool);
      if (!idle || (longest && view.slice(*idle).idle_since >= view.slice(*longest).idle_since)) continue;
      // Zero: slices of this pool do not take the request.
      const std::uint32_t taken = take(view, pool, lane);
      if (taken == 0) continue;
      longest = idle;
      count = taken;
    }
    return longest ? batch(view, *longest, lane, count) : Choice::wait();
  }

  Choice on_idle(const View& view, SliceId slice) override {
    const PoolId pool = view.slice(slice).place.pool;
    std::optional<LaneId> oldest;
    std::uint32_t count = 0;
    for (const auto& entry : view.pool_data(pool).services) {
      view.each_occupied_lane(entry.service, [&](LaneId id, const Lane& lane) {
        // Ids rise with arrival.
        if (oldest && view.lane(*oldest).queue.front()->request.id < lane.queue.front()->request.id) return;
        const std::uint32_t taken = take(view, pool, id);
        if (taken == 0) return;
        oldest = id;
        count = taken;
      });
    }
    return oldest ? batch(view, slice, *oldest, count) : Choice::wait();
  }

 private:
  std::uint32_t take(const View& view, PoolId pool, LaneId lane) const {
    return batch_in_time(view, pool, lane, merge_);
  }

  Choice batch(const View& view, SliceId slice, LaneId lane, std::uint32_t count) const {
    Choice choice = Choice::start(slice, lane, count);
    if (merge_) fill_across_samples(view, view.slice(slice).place.pool, Duration::max(), &choice);
    return choice;
  }

  bool merge_;
};

}  // namespace

std::unique_ptr<Policy> make_fifs(const PolicyConfig& config) { return std::make_unique<Fifs>(config); }

}  // namespace tangram::sched

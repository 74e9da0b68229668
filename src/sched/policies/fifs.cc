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
    for (const PoolId pool : view.service(view.lane(lane).service).pools) {
      const auto idle = view.idle_slice(pool);
      if (!idle || take(view, pool, lane) == 0) continue;
      if (!longest || view.slice(*idle).idle_since < view.slice(*longest).idle_since) longest = idle;
    }
    if (!longest) return Choice::wait();
    return Choice::start(*longest, lane, take(view, view.slice(*longest).place.pool, lane));
  }

  Choice on_idle(const View& view, SliceId slice) override {
    const PoolId pool = view.slice(slice).place.pool;
    std::optional<LaneId> oldest;
    for (const auto& entry : view.pool_data(pool).services) {
      view.each_occupied_lane(entry.service, [&](LaneId id, const Lane& lane) {
        if (oldest && view.lane(*oldest).queue.front()->request.id < lane.queue.front()->request.id) return;
        if (take(view, pool, id) > 0) oldest = id;
      });
    }
    if (!oldest) return Choice::wait();
    return Choice::start(slice, *oldest, take(view, pool, *oldest));
  }

 private:
  std::uint32_t take(const View& view, PoolId pool, LaneId lane) const {
    return batch_in_time(view, pool, lane, merge_);
  }

  bool merge_;
};

}  // namespace

std::unique_ptr<Policy> make_fifs(const PolicyConfig& config) { return std::make_unique<Fifs>(config); }

}  // namespace tangram::sched

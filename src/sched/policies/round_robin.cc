// Round robin: requests of a service are bound to its slices in turn, whatever they hold. What a load balancer without
// knowledge of slices does.

#include "sched/policy.h"

namespace tangram::sched {
namespace {

class RoundRobin final : public Policy {
 public:
  bool binds() const override { return true; }

  std::optional<Binding> bind(const View& view, const Waiting& waiting) override {
    for (std::size_t tried = 0; tried < view.slice_count(); ++tried) {
      next_ = (next_ + 1) % view.slice_count();
      const SliceId id(static_cast<std::uint32_t>(next_));
      const SliceState& slice = view.slice(id);
      if (!serves(slice)) continue;
      const PoolService* entry = view.pool_service(slice.place.pool, waiting.request.queue);
      if (entry != nullptr && entry->takes(waiting.bucket, waiting.request.samples)) return Binding{id};
    }
    return std::nullopt;  // No slice takes it now: it waits in its lane.
  }

 private:
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_round_robin(const PolicyConfig&) { return std::make_unique<RoundRobin>(); }

}  // namespace tangram::sched

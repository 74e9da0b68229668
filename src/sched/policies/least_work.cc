// Least work: a request is bound on arrival to the slice that should finish it first, waiting included. It minimises
// each request's own latency and fills large slices with small requests.

#include "sched/policy.h"

namespace tangram::sched {
namespace {

class LeastWork final : public Policy {
 public:
  bool binds() const override { return true; }

  std::optional<Binding> bind(const View& view, const Waiting& waiting) override {
    const Request& request = waiting.request;
    std::optional<Binding> best;
    Duration best_end = Duration::max();
    for (const PoolId pool : view.service(request.queue).pools) {
      const auto& slices = view.pool(pool).by_free_time;
      const PoolService& entry = *view.pool_service(pool, request.queue);
      if (slices.empty() || !entry.takes(waiting.bucket, request.samples)) continue;
      const SliceId slice = slices.front();
      const Duration end = view.wait_for(view.slice(slice)) + view.mean(pool, entry, waiting.bucket, request.samples);
      if (end >= best_end) continue;
      best_end = end;
      best = Binding{slice};
    }
    return best;
  }
};

}  // namespace

std::unique_ptr<Policy> make_least_work(const PolicyConfig&) { return std::make_unique<LeastWork>(); }

}  // namespace tangram::sched

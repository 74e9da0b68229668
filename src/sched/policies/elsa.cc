// ELSA (Kim et al., DAC 2022): elastic scheduling by slack.
//
// A request is bound on arrival to the smallest slice on which it still has slack, slack being the time left to
// its deadline less alpha times the waiting and beta times the running that are predicted there. When no slice has
// any, it goes where it will be finished first, to limit the damage. Within a kind the least loaded slice is tried.

#include "sched/policy.h"

namespace tangram::sched {
namespace {

class Elsa final : public Policy {
 public:
  explicit Elsa(const PolicyConfig& config)
      : alpha_(config.elsa_alpha), beta_(config.elsa_beta), plain_(alpha_ == 1 && beta_ == 1) {}

  bool binds() const override { return true; }

  std::optional<Binding> bind(const View& view, const Waiting& waiting) override {
    const Request& request = waiting.request;
    const Duration left = request.deadline - view.now();
    std::optional<Binding> first;
    Duration first_end = Duration::max();
    for (const PoolId pool : view.service(request.queue).pools) {
      const auto& slices = view.pool(pool).by_free_time;
      const PoolService& entry = *view.pool_service(pool, request.queue);
      if (slices.empty() || !entry.takes(waiting.bucket, request.samples)) continue;
      const SliceId slice = slices.front();
      const Duration wait = view.wait_for(view.slice(slice));
      const Duration run = view.mean(pool, entry, waiting.bucket, request.samples);
      if (weighted(wait, run) < left) return Binding{slice};
      if (wait + run < first_end) {
        first_end = wait + run;
        first = Binding{slice};
      }
    }
    return first;
  }

 private:
  Duration weighted(Duration wait, Duration run) const {
    // Integers are exact; the general form rounds through doubles.
    if (plain_) return wait + run;
    const double sum = alpha_ * (static_cast<double>(wait.count()) + beta_ * static_cast<double>(run.count()));
    return Duration(static_cast<std::int64_t>(sum));
  }

  double alpha_;
  double beta_;
  bool plain_;
};

}  // namespace

std::unique_ptr<Policy> make_elsa(const PolicyConfig& config) { return std::make_unique<Elsa>(config); }

}  // namespace tangram::sched

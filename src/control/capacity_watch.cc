#include "control/capacity_watch.h"

#include <algorithm>
#include <utility>

namespace tangram::control {

double capacity_per_s(const sched::State& state, ServiceId service, const SizeCounts& mix) {
  const ServiceId queue = sched::queue_of(state.deployment, service);
  const sched::ServiceState& now = state.services[queue.index()];
  const sched::DeployedService& deployed = state.deployment.services[queue.index()];
  if (now.slices == 0 || now.drain_ns.empty()) return 0;
  double requests = 0;
  double ns = 0;  // That they take.
  for (const auto& [size, count] : mix) {
    const std::uint32_t bucket = deployed.bucket_of(size);
    // Larger than the plan takes, or of a bucket that no slice takes now.
    if (bucket == now.drain_ns.size() || now.drain_ns[bucket] <= 0) continue;
    requests += count;
    ns += count * now.drain_ns[bucket];
  }
  return ns > 0 ? 1e9 * requests / ns : 0;
}

void CapacityWatch::begin(std::vector<ServiceDemand> needed, TimePoint now) {
  needed_ = std::move(needed);
  below_.assign(needed_.size(), false);
  shorts_.clear();
  noted_at_ = now;
}

void CapacityWatch::note(const sched::State& state, TimePoint now) {
  const Duration since = now - std::exchange(noted_at_, now);
  for (std::size_t s = 0; s < needed_.size() && s < state.services.size(); ++s) {
    const ServiceId service(static_cast<std::uint32_t>(s));
    const auto known = std::ranges::find(shorts_, service, &Short::service);
    if (below_[s]) known->lasted += since;
    const double capacity = capacity_per_s(state, service, needed_[s].mix);
    below_[s] = needed_[s].rate_per_s > 0 && capacity < needed_[s].rate_per_s;
    if (!below_[s]) continue;
    if (known == shorts_.end()) {
      shorts_.push_back({service, needed_[s].rate_per_s, capacity, Duration{}});
    } else {
      known->lowest_per_s = std::min(known->lowest_per_s, capacity);
    }
  }
}

}  // namespace tangram::control

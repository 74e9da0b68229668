// Which idle replicas keep their GPU. A replica is worth the requests that it will probably serve times the cold start
// that each of them is spared; it is kept while that exceeds a price.
//
// The price is a controller of its own. It rises while requests wait less than the target and falls while they wait
// more, so the number of kept replicas settles where the target is met. The target is a fixed wait, or the wait that
// the same request would have had under a fixed timer, which is simulated beside the real pool.

#include "train/keep_warm.h"

#include <algorithm>

#include "base/math.h"

namespace tangram::train {
namespace {

constexpr double kAdjustment = 0.01;  // Of the price with each request: about a hundred of them decide.
constexpr double kPriceMin = 1e-4;
constexpr double kPriceMax = 10;
constexpr double kLook_s = 30;  // How often the worth of a guarded replica is looked at again.

}  // namespace

KeepWarm::KeepWarm(const KeepWarmOptions& options, std::vector<double> cold_start_s)
    : options_(options),
      timed_(cold_start_s.size()),
      cold_start_s_(std::move(cold_start_s)),
      demand_(cold_start_s_.size()) {}

void KeepWarm::on_arrival(int application, double now_s) {
  if (begin_s_ < 0) begin_s_ = now_s;
  Demand& demand = demand_[static_cast<std::size_t>(application)];
  // An exponentially decaying count of arrivals, updated in O(1): no list of arrivals is kept.
  demand.weight = demand.weight * math::exp((demand.at_s - now_s) / options_.memory_s) + 1;
  demand.at_s = now_s;
}

double KeepWarm::timer_wait_s(const Start& start) {
  auto& replicas = timed_[static_cast<std::size_t>(start.application)];
  // Replicas whose timer has run out are gone.
  std::erase_if(replicas,
                [&](const TimedReplica& replica) { return replica.idle_s + timer_s(replica.hits) < start.submit_s; });
  TimedReplica* best = nullptr;
  for (auto& replica : replicas) {
    if (replica.idle_s <= start.submit_s && (best == nullptr || replica.hits > best->hits)) best = &replica;
  }
  if (best != nullptr) {
    *best = {start.submit_s + start.duration_s, best->hits + 1};
    return 0;
  }
  const double wait_s = start.slept ? 0 : cold_start_s(start.application);
  replicas.push_back({start.submit_s + wait_s + start.duration_s, 0});
  return wait_s;
}

void KeepWarm::on_start(const Start& start) {
  duration_sum_s_ += start.duration_s;
  served_ += 1;
  const double timer_s = timer_wait_s(start);
  // Compared with the same request under the timer: a hit where the timer misses says that more is kept than necessary,
  // and the reverse.
  const double off = options_.wait_target_s
                         ? (*options_.wait_target_s - start.wait_s) / *options_.wait_target_s
                         : 2 * (options_.timer_share * timer_s - start.wait_s) / cold_start_s(start.application);
  // Multiplied, so that the price moves by the same share wherever it is, within bounds from which it can return.
  price_ = std::clamp(price_ * math::exp(kAdjustment * off), kPriceMin, kPriceMax);
}

double KeepWarm::rate(int application, double now_s) const {
  const Demand& demand = demand_[static_cast<std::size_t>(application)];
  const double weight = demand.weight * math::exp((demand.at_s - now_s) / options_.memory_s);
  // The sum of weights reaches its steady state only after some multiples of memory_s; until then it is divided by what
  // it could have reached.
  const double since = begin_s_ < 0 ? 0 : now_s - begin_s_;
  const double window_s = options_.memory_s * (1 - math::exp(-std::max(since, 60.0) / options_.memory_s));
  return weight / window_s;
}

double KeepWarm::rate_total(double now_s) const {
  double sum = 0;
  for (std::size_t a = 0; a < demand_.size(); ++a) sum += rate(static_cast<int>(a), now_s);
  return sum;
}

double KeepWarm::guard_s(int application, int hits, int idle, double now_s) const {
  switch (options_.kind) {
    case KeepWarmKind::none: return 0;
    case KeepWarmKind::timer: return timer_s(hits);
    case KeepWarmKind::demand: break;
  }
  const double requests = rate(application, now_s);
  // A second idle replica is useful only to a request that arrives while the first is busy, a third only while two are.
  // The chance of that is about the load over the number of busy replicas.
  double useful = 1;
  for (int i = 0; i < idle; ++i) useful *= std::min(requests * duration_mean_s() / (i + 1), 1.0);
  return requests * useful * cold_start_s(application) >= price_ ? kLook_s : 0;
}

}  // namespace tangram::train

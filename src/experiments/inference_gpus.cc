// Replicas move between four states: starting, running, guarded and asleep. A state with an end (all but asleep) has
// its instant in until_s, and settle() moves on every replica whose end has passed. Sleeping replicas have no end: a
// request wakes them or training takes their GPU.
//
// Numbers of replicas are small (at most one for each GPU of the cluster), so every question is a scan of the pool.

#include "experiments/inference_gpus.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tangram::experiments {
namespace {

using train::ReplicaStatus;

// Later than any simulated time, and finite: it goes through comparisons and std::min like any other end.
constexpr double kNever_s = 1e18;
constexpr double kInHandLook_s = 15;  // How often the number of GPUs in hand is looked at again.

}  // namespace

InferenceGpus::InferenceGpus(const Options& options, std::vector<double> cold_start_s)
    : options_(options), keep_warm_(options.keep_warm, std::move(cold_start_s)) {}

std::size_t InferenceGpus::settle(double now_s) {
  // Resting closes replicas, so those that are due are listed first.
  std::vector<std::uint32_t> due;
  for (const auto& replica : pool_.replicas()) {
    if (replica.status != ReplicaStatus::asleep && replica.until_s <= now_s) due.push_back(replica.id);
  }
  std::size_t ended = 0;
  for (const std::uint32_t id : due) {
    const train::WarmReplica replica = pool_.at(id);
    if (replica.status == ReplicaStatus::running) ++ended;
    if (options_.packed) {
      rest_in_hand(replica, now_s);
    } else {
      rest(replica, now_s);
    }
  }
  return ended;
}

double InferenceGpus::next_change_s() const {
  double next = std::numeric_limits<double>::infinity();
  for (const auto& replica : pool_.replicas()) {
    if (replica.status != ReplicaStatus::asleep) next = std::min(next, replica.until_s);
  }
  return next;
}

// The timer of DeepBoot is counted down once a second and expires a second late; the added second reproduces that.
void InferenceGpus::rest(const train::WarmReplica& replica, double now_s) {
  const bool timer = options_.keep_warm.kind == train::KeepWarmKind::timer;
  // A timer is not renewed: after its guard a replica sleeps. Demand-driven guards are decided again each time.
  if (timer && replica.status == ReplicaStatus::guarded) return pool_.put_asleep(replica.id);
  int others = 0;
  for (const auto& other : pool_.replicas()) {
    const bool guarded = other.application == replica.application && other.status == ReplicaStatus::guarded;
    others += guarded && other.id != replica.id ? 1 : 0;
  }
  // Replicas that are guarded already make a further guard worth less.
  const double guard_s = keep_warm_.guard_s(replica.application, replica.hits, others, now_s);
  if (guard_s > 0) return pool_.guard(replica.id, now_s + guard_s + (timer ? 1 : 0));
  pool_.put_asleep(replica.id);
  // One that has just started is kept for the request that it was started for.
  const bool served = replica.status != ReplicaStatus::starting;
  if (options_.keep_warm.kind == train::KeepWarmKind::none && served) pool_.close(replica.id);
}

// The number of requests in progress is about Poisson with mean rate * time (Little's law), so its standard deviation
// is the square root of that mean. The margin is given in such deviations.
double InferenceGpus::in_hand_target(double now_s) const {
  const double busy = keep_warm_.rate_total(now_s) * (keep_warm_.duration_mean_s() + options_.packed->start_s);
  return busy + options_.packed->margin * std::sqrt(busy);
}

void InferenceGpus::rest_in_hand(const train::WarmReplica& replica, double now_s) {
  // Counts the GPUs that are in use or in hand without this one. Shelves hold no request and do not count.
  double held = 0;
  for (const auto& other : pool_.replicas()) {
    held += other.application != kShelf && other.status != ReplicaStatus::asleep && other.id != replica.id ? 1 : 0;
  }
  // The GPU is no longer bound to the application.
  pool_.rename(replica.id, kAnyApplication);
  if (held + 1 <= in_hand_target(now_s)) {
    pool_.guard(replica.id, now_s + kInHandLook_s);
  } else {
    pool_.put_asleep(replica.id);
  }
}

double InferenceGpus::note_start(const Start& start, double delay_s, bool slept) {
  // The policy learns from waits, durations and whether a replica slept: it tunes its guards by them.
  const double wait_s = start.now_s + delay_s - start.submit_s;
  keep_warm_.on_start({.application = start.application,
                       .submit_s = start.submit_s,
                       .wait_s = wait_s,
                       .duration_s = start.duration_s,
                       .slept = slept});
  return wait_s;
}

std::optional<double> InferenceGpus::run_warm(const Start& start) {
  // A guarded replica or a sleeping one; both start without a delay.
  const auto warm = pool_.find_warm(start.application);
  if (!warm) return std::nullopt;
  // A request that had to wait found none asleep when it came.
  const bool slept = pool_.at(*warm).status == ReplicaStatus::asleep && start.submit_s == start.now_s;
  const double wait_s = note_start(start, 0, slept);
  pool_.wake(*warm, start.now_s + start.duration_s);
  return wait_s;
}

double InferenceGpus::run_cold(const Start& start, int node) {
  const double cold_s = keep_warm_.cold_start_s(start.application);
  const double wait_s = note_start(start, cold_s, false);
  pool_.open(start.application, node, start.now_s + cold_s + start.duration_s);
  return wait_s;
}

double InferenceGpus::run_packed(const Start& start, std::optional<std::uint32_t> in_hand, int node) {
  const double cold_s = keep_warm_.cold_start_s(start.application);
  // A replica on a shelf is copied from its slice, which never takes longer than a cold start.
  const double delay_s = on_shelf(start.application) ? std::min(options_.packed->start_s, cold_s) : cold_s;
  const double wait_s = note_start(start, delay_s, false);
  const double until_s = start.now_s + delay_s + start.duration_s;
  if (in_hand) {
    pool_.wake(*in_hand, until_s);
  } else {
    pool_.open(start.application, node, until_s);
  }
  return wait_s;
}

bool InferenceGpus::shelves_full() const {
  return static_cast<int>(shelved_.size()) == shelves_ * options_.packed->slots;
}

void InferenceGpus::add_shelf(int node) {
  pool_.open(kShelf, node, kNever_s);
  // A shelf runs "for ever": it never ends and is never offered to a request.
  ++shelves_;
}

// The iteration ends with the removal, which invalidates it.
bool InferenceGpus::close_asleep_on(int node) {
  for (const auto& replica : pool_.replicas()) {
    if (replica.node != node || replica.status != ReplicaStatus::asleep) continue;
    pool_.close(replica.id);
    return true;
  }
  return false;
}

std::optional<int> InferenceGpus::close_guarded(double now_s) {
  const train::WarmReplica* least = nullptr;
  double least_rate = 0;
  for (const auto& replica : pool_.replicas()) {
    // Negative numbers are GPUs in hand and shelves: neither belongs to one application.
    if (replica.status != ReplicaStatus::guarded || replica.application < 0) continue;
    const double rate =
        keep_warm_.rate(replica.application, now_s) / std::max(pool_.idle_count(replica.application), 1);
    if (least != nullptr && rate >= least_rate) continue;
    least = &replica;
    least_rate = rate;
  }
  if (least == nullptr) return std::nullopt;
  const int node = least->node;
  pool_.close(least->id);
  return node;
}

void InferenceGpus::close_displaced(const std::vector<int>& training, int gpus_per_node) {
  // Replicas that run or are guarded keep their GPUs. Sleeping ones share what training left, in the order of the pool.
  std::vector<int> used = training;
  for (const auto& replica : pool_.replicas()) {
    if (replica.status != ReplicaStatus::asleep) ++used[static_cast<std::size_t>(replica.node)];
  }
  std::vector<std::uint32_t> displaced;
  for (const auto& replica : pool_.replicas()) {
    if (replica.status != ReplicaStatus::asleep) continue;
    int& gpus = used[static_cast<std::size_t>(replica.node)];
    if (gpus < gpus_per_node) {
      ++gpus;
    } else {
      displaced.push_back(replica.id);
    }
  }
  for (const std::uint32_t id : displaced) pool_.close(id);
}

std::size_t InferenceGpus::starting_count() const {
  return static_cast<std::size_t>(
      std::ranges::count(pool_.replicas(), ReplicaStatus::starting, &train::WarmReplica::status));
}

bool InferenceGpus::any_asleep() const {
  return std::ranges::any_of(pool_.replicas(), [](const auto& r) { return r.status == ReplicaStatus::asleep; });
}

bool InferenceGpus::has_guarded(int application) const {
  return std::ranges::any_of(pool_.replicas(), [&](const auto& r) {
    return r.status == ReplicaStatus::guarded && r.application == application;
  });
}

void InferenceGpus::add_to_nodes(std::vector<int>& gpus) const {
  for (const auto& replica : pool_.replicas()) ++gpus[static_cast<std::size_t>(replica.node)];
}

InferenceGpus::Counts InferenceGpus::counts() const {
  Counts counts;
  for (const auto& replica : pool_.replicas()) {
    // A shelf counts as guarded: it is idle, and training cannot have it.
    if (replica.application == kShelf || replica.status == ReplicaStatus::guarded) {
      ++counts.guarded;
    } else if (replica.status == ReplicaStatus::asleep) {
      ++counts.asleep;
    } else {
      ++counts.running;
    }
  }
  return counts;
}

}  // namespace tangram::experiments

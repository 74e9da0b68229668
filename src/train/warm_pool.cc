// A small table of replicas, ordered by id. Ids only grow and entries are erased in place, so the order needs no
// sorting and a lookup is a binary search. Pools hold at most one replica for each GPU, so linear scans are cheap.

#include "train/warm_pool.h"

#include <algorithm>

#include "base/check.h"

namespace tangram::train {
namespace {

bool is_idle(const WarmReplica& replica) {
  return replica.status == ReplicaStatus::guarded || replica.status == ReplicaStatus::asleep;
}

}  // namespace

// The new id is the largest, so appending keeps the order.
std::uint32_t WarmPool::open(int application, int node, double until_s) {
  replicas_.push_back({next_id_, application, node, ReplicaStatus::running, until_s, 0});
  return next_id_++;
}

std::uint32_t WarmPool::start(int application, int node, double until_s) {
  replicas_.push_back({next_id_, application, node, ReplicaStatus::starting, until_s, 0});
  return next_id_++;
}

std::size_t WarmPool::index_of(std::uint32_t id) const {
  const auto found = std::ranges::lower_bound(replicas_, id, {}, &WarmReplica::id);
  TANGRAM_CHECK(found != replicas_.end() && found->id == id, "the replica is there");
  return static_cast<std::size_t>(found - replicas_.begin());
}

std::optional<std::uint32_t> WarmPool::find_warm(int application) const {
  const WarmReplica* best = nullptr;
  for (const auto& replica : replicas_) {
    if (replica.application != application || !is_idle(replica)) continue;
    // A guarded replica comes before one asleep: its GPU is held for this application and would otherwise stay idle.
    const auto rank = [](const WarmReplica& r) { return r.status == ReplicaStatus::guarded ? r.hits + 1 : 0; };
    if (best == nullptr || rank(replica) > rank(*best)) best = &replica;
  }
  if (best == nullptr) return std::nullopt;
  return best->id;
}

void WarmPool::wake(std::uint32_t id, double until_s) {
  WarmReplica& replica = find(id);
  TANGRAM_CHECK(is_idle(replica), "a replica is ready and runs one request at a time");
  // A hit counts only if guarding made it one; a replica that was asleep was free to be taken.
  replica.hits = replica.status == ReplicaStatus::guarded ? replica.hits + 1 : 0;
  replica.status = ReplicaStatus::running;
  replica.until_s = until_s;
}

void WarmPool::guard(std::uint32_t id, double until_s) {
  WarmReplica& replica = find(id);
  replica.status = ReplicaStatus::guarded;
  replica.until_s = until_s;
}

// The run of hits ends here: the replica is no longer protected.
void WarmPool::put_asleep(std::uint32_t id) {
  WarmReplica& replica = find(id);
  replica.status = ReplicaStatus::asleep;
  replica.hits = 0;
}

void WarmPool::close(std::uint32_t id) {
  const std::size_t index = index_of(id);
  TANGRAM_CHECK(is_idle(replicas_[index]), "a replica that starts or runs is not taken away");
  replicas_.erase(replicas_.begin() + static_cast<std::ptrdiff_t>(index));
}

std::vector<int> WarmPool::held(int nodes) const {
  std::vector<int> held(static_cast<std::size_t>(nodes), 0);
  for (const auto& replica : replicas_) {
    // A replica that is asleep gives way to anyone, so it holds no GPU.
    if (replica.status != ReplicaStatus::asleep) ++held[static_cast<std::size_t>(replica.node)];
  }
  return held;
}

// Linear in the number of replicas.
int WarmPool::idle_count(int application) const {
  return static_cast<int>(std::ranges::count_if(
      replicas_, [&](const WarmReplica& replica) { return replica.application == application && is_idle(replica); }));
}

int WarmPool::starting_count(int application) const {
  return static_cast<int>(std::ranges::count_if(replicas_, [&](const WarmReplica& replica) {
    return replica.application == application && replica.status == ReplicaStatus::starting;
  }));
}

}  // namespace tangram::train

// Replicas that inference keeps warm, one GPU each: starting, running a request, guarded for the next one, or asleep.
//
// The GPU of a guarded replica is reserved for its application. A replica that is asleep can be woken by a request of
// its application at no cost, until training or another application takes its GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tangram::train {

enum class ReplicaStatus { starting, running, guarded, asleep };

struct WarmReplica {
  std::uint32_t id = 0;  // Never used twice.
  int application = 0;
  int node = 0;
  ReplicaStatus status = ReplicaStatus::running;
  double until_s = 0;  // Of starting, running and guarded: when that ends.
  int hits = 0;        // Requests in a row that found it guarded.
};

class WarmPool {
 public:
  // A request of `application` starts cold on a GPU of `node` and ends at `until_s`.
  std::uint32_t open(int application, int node, double until_s);
  // A replica of `application` starts on a GPU of `node`. It is ready at `until_s`, for whichever request comes first.
  std::uint32_t start(int application, int node, double until_s);
  // The replica that a request of `application` should use: the guarded one with the most hits, or else one asleep.
  std::optional<std::uint32_t> find_warm(int application) const;
  // It runs a request that ends at `until_s`.
  void wake(std::uint32_t id, double until_s);
  void guard(std::uint32_t id, double until_s);
  void put_asleep(std::uint32_t id);
  // Its GPU serves another application from now on.
  void rename(std::uint32_t id, int application) { find(id).application = application; }
  // Its GPU is free again. Requires that it neither starts nor runs.
  void close(std::uint32_t id);

  std::span<const WarmReplica> replicas() const { return replicas_; }
  const WarmReplica& at(std::uint32_t id) const { return replicas_[index_of(id)]; }
  // On each node, replicas that hold a GPU against everybody: starting, running and guarded.
  std::vector<int> held(int nodes) const;
  // Replicas of `application` that are idle, guarded or asleep.
  int idle_count(int application) const;
  // Replicas of `application` that are starting.
  int starting_count(int application) const;

 private:
  // The index of the replica in `replicas_`. Requires that it has not been closed. O(log n).
  std::size_t index_of(std::uint32_t id) const;
  WarmReplica& find(std::uint32_t id) { return replicas_[index_of(id)]; }

  std::vector<WarmReplica> replicas_;  // Ascending by id: ids only grow, so that `open` appends.
  std::uint32_t next_id_ = 0;
};

}  // namespace tangram::train

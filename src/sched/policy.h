// How work is dispatched.
//
// A policy reads a View and returns a choice; the scheduler validates, times and applies it. It may bind a request to
// one slice when it arrives, or leave it in the shared queue of its bucket until a slice is free.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sched/state.h"

namespace tangram::sched {

// Settings of policies. Each policy reads the fields that are named for it.
struct PolicyConfig {
  bool merge = true;      // Requests may share a batch. False: each runs alone, as in PARIS and ELSA.
  double elsa_alpha = 1;  // Weight of waiting and running in ELSA's slack.
  double elsa_beta = 1;   // Weight of running alone.
  bool drop_unrecoverable =
      true;  // Requests that cannot end within Slo::late_limit are rejected; otherwise they run late.
  bool bursts_expected = false;  // `tangram`: binds requests of several samples from the start, as after a burst.
};

// The scheduler's memory with the questions that policies ask of it.
class View {
 public:
  explicit View(const State& state) : state_(&state) {}

  TimePoint now() const { return state_->now; }
  const Deployment& deployment() const { return state_->deployment; }
  ServiceId queue_of(ServiceId service) const { return sched::queue_of(state_->deployment, service); }
  const DeployedService& service(ServiceId id) const { return state_->deployment.services[id.index()]; }
  const SliceState& slice(SliceId id) const { return state_->slices[id.index()]; }
  const PoolState& pool(PoolId id) const { return state_->slices.pool(id); }
  const Pool& pool_data(PoolId id) const { return state_->deployment.pools[id.index()]; }
  const Lane& lane(LaneId id) const { return state_->lanes[id.index()]; }
  LaneId late_lane(ServiceId id) const { return state_->late_lane_of(id); }
  std::size_t slice_count() const { return state_->slices.size(); }

  // The slice of the pool that has been idle longest, if any is.
  std::optional<SliceId> idle_slice(PoolId id) const {
    const std::uint32_t first = pool(id).idle.first;
    if (first == SliceState::kNone) return std::nullopt;
    return SliceId(first);
  }

  // The lane of a bucket for requests of one sample, which also remembers where its last batch was opened.
  LaneId first_lane_id(ServiceId service, std::uint32_t bucket) const { return state_->lane_of(service, bucket, 1); }
  const Lane& first_lane(ServiceId service, std::uint32_t bucket) const { return lane(first_lane_id(service, bucket)); }

  // How long until a request that joins the slice's own queue now would start.
  Duration wait_for(const SliceState& slice) const {
    const Duration until_free = slice.free_at - now();
    return until_free.count() > slice.bound.work_ns() ? until_free : Duration(slice.bound.work_ns());
  }

  // How `pool` runs `service`; null if it does not.
  const PoolService* pool_service(PoolId pool, ServiceId service) const {
    for (const auto& entry : pool_data(pool).services) {
      if (entry.service == service) return &entry;
    }
    return nullptr;
  }

  // The row of the corrections for `entry`, which is one of the services of `pool`.
  std::size_t row_of(PoolId pool, const PoolService& entry) const {
    return state_->first_row[pool.index()] + static_cast<std::size_t>(&entry - pool_data(pool).services.data());
  }

  // Predicted run times, corrected by what was measured since.
  Duration mean(PoolId pool, const PoolService& entry, std::uint32_t bucket, std::int32_t samples) const {
    const std::int64_t table_ns = entry.latency.mean_ns(bucket, samples);
    if (!state_->corrections.on()) return Duration(table_ns);
    return scaled(table_ns, state_->corrections.factor(row_of(pool, entry), bucket, samples));
  }
  Duration p99(PoolId pool, const PoolService& entry, std::uint32_t bucket, std::int32_t samples) const {
    if (!state_->corrections.on()) return Duration(entry.latency.p99_ns(bucket, samples));
    const std::size_t row = row_of(pool, entry);
    const double factor = state_->corrections.factor(row, bucket, samples);
    const double spread = state_->corrections.spread(row, bucket, samples);
    if (spread < 0) return scaled(entry.latency.p99_ns(bucket, samples), factor);
    return scaled(entry.latency.mean_ns(bucket, samples), factor * (1 + spread));
  }

  // The mean run time of `service` on `pool`, which runs it, as a function of bucket and samples.
  auto run_time(PoolId pool, const PoolService& entry) const {
    return
        [this, pool, &entry](std::uint32_t bucket, std::int32_t samples) { return mean(pool, entry, bucket, samples); };
  }
  // The same for any service that `pool` runs: run_times(pool)(service)(bucket, samples).
  auto run_times(PoolId pool) const {
    return [this, pool](ServiceId service) { return run_time(pool, *pool_service(pool, service)); };
  }

  // The bucket that a request waits and runs in: the smallest one for its size that some slice takes with so many
  // samples. A bucket of few samples is passed over for a larger one: with edges 16 and 64, of which the first takes
  // one sample and the second four, two samples of size 3 are padded to 64. Where no bucket takes them, that of the
  // size alone; edges.size() if the size is above all edges.
  std::uint32_t bucket_of(const Request& request) const {
    const DeployedService& asked = service(request.queue);
    const std::uint32_t by_size = asked.bucket_of(request.size);
    for (std::uint32_t bucket = by_size; bucket < asked.edges.size(); ++bucket) {
      for (const PoolId id : asked.pools) {
        if (pool(id).present > 0 && pool_service(id, request.queue)->takes(bucket, request.samples)) return bucket;
      }
    }
    return by_size;
  }

  // Calls `visit(LaneId, const Lane&)` for every lane of `service` that holds a request, in order of bucket and
  // samples; the late lane comes last.
  template <typename Visit>
  void each_occupied_lane(ServiceId id, Visit&& visit) const {
    const ServiceState& service = state_->services[id.index()];
    for (std::size_t word = 0; word < service.occupied.size(); ++word) {
      for (std::uint64_t bits = service.occupied[word]; bits != 0; bits &= bits - 1) {
        const LaneId lane(service.lanes_begin + static_cast<std::uint32_t>(64 * word) +
                          static_cast<std::uint32_t>(std::countr_zero(bits)));
        visit(lane, state_->lanes[lane.index()]);
      }
    }
  }
  // How long all slices of the service together need for what waits in its lanes and is not late, and for one request
  // more.
  Duration backlog(ServiceId id) const { return Duration(state_->services[id.index()].backlog_ns); }
  // The same for what would run before `request`, which does not wait: requests of higher priority, and of the same
  // priority with an earlier deadline. So a request with much time cannot shut out one with little.
  Duration backlog_before(const Request& request) const;
  Duration drain(const Request& request, std::uint32_t bucket) const {
    const double per_sample = state_->services[request.queue.index()].drain_ns[bucket];
    return Duration(static_cast<std::int64_t>(per_sample * request.samples));
  }

  // Of the service's requests, lately: those that were not answered in time.
  double lost_share(ServiceId id) const { return state_->services[id.index()].lost_share; }
  // True for a service that has lately lost more than half of what its promise allows: 0.5 % of the requests at p99.
  bool is_short(ServiceId id) const {
    return state_->services[id.index()].lost_share > 0.5 * (1 - service(id).slo.percentile / 100);
  }

  // When an answer to the request is worth nothing any more: its deadline, or later if its Slo has a late_limit.
  TimePoint last_deadline(const Request& request) const {
    const double limit = service(request.queue).slo.late_limit;
    if (limit == 1) return request.deadline;
    const auto promised = static_cast<double>((request.deadline - request.arrival).count());
    return request.deadline + Duration(static_cast<std::int64_t>((limit - 1) * promised));
  }

  // False for inputs of different sizes of a service that does not pad.
  bool may_share(const Request& a, std::int64_t size) const {
    return a.size == size || service(a.queue).padding != Padding::none;
  }

 private:
  static Duration scaled(std::int64_t table_ns, double factor) {
    return Duration(static_cast<std::int64_t>(static_cast<double>(table_ns) * factor));
  }

  const State* state_;
};

// What a policy wants done.
struct Choice {
  enum class Kind : std::uint8_t {
    wait,    // Nothing now; ask again at `until`, or when something changes.
    start,   // Run the parts as one batch on `slice`.
    steal,   // Run the first batch that waits for the slice `from` on `slice`.
    demote,  // Move the first request of parts[0].lane to the late lane of its service, then ask again.
    drop,    // Reject the first request of parts[0].lane as too late, then ask again.
  };
  // `take` requests of a lane, after the first `skip`.
  struct Part {
    LaneId lane;
    std::uint32_t take = 0;
    std::uint32_t skip = 0;
  };
  static constexpr std::size_t kPartsMax = 8;

  Kind kind = Kind::wait;
  SliceId slice;
  SliceId from;
  std::uint32_t part_count = 0;
  TimePoint until = kTimeNever;
  // Only the first `part_count` mean anything: a choice is made at every event, and filling in the rest would cost more
  // than the choice.
  union {
    std::array<Part, kPartsMax> parts;
  };

  Choice() {}  // NOLINT(modernize-use-equals-default): the parts stay as they are.

  static Choice wait(TimePoint until = kTimeNever) {
    Choice choice;
    choice.until = until;
    return choice;
  }
  static Choice start(SliceId slice, LaneId lane, std::uint32_t take, std::uint32_t skip = 0) {
    Choice choice;
    choice.kind = Kind::start;
    choice.slice = slice;
    choice.add(lane, take, skip);
    return choice;
  }
  static Choice steal(SliceId slice, SliceId from) {
    Choice choice;
    choice.kind = Kind::steal;
    choice.slice = slice;
    choice.from = from;
    return choice;
  }
  static Choice demote(LaneId lane) { return on_first(Kind::demote, lane); }
  static Choice drop(LaneId lane) { return on_first(Kind::drop, lane); }

  bool full() const { return part_count == kPartsMax; }
  void add(LaneId lane, std::uint32_t take, std::uint32_t skip = 0) { parts[part_count++] = {lane, take, skip}; }

 private:
  static Choice on_first(Kind kind, LaneId lane) {
    Choice choice;
    choice.kind = kind;
    choice.add(lane, 1);
    return choice;
  }
};

// Where a request waits.
struct Binding {
  SliceId slice;
  bool joins = false;  // It joins the slice's open batch; otherwise it opens the next.
};

// Requests that wait for one slice and give up their places in its queue to others.
struct Displacement {
  static constexpr std::size_t kVictimsMax = 8;

  SliceId slice;
  std::uint32_t count = 0;                          // 0: none gives way.
  std::array<const Waiting*, kVictimsMax> victims;  // Only the first `count` mean anything.

  Displacement() {}  // NOLINT(modernize-use-equals-default): the victims stay as they are.
  explicit Displacement(SliceId id) : slice(id) {}
  Displacement(SliceId id, const Waiting* only) : slice(id), count(1), victims{only} {}
};

class Policy {
 public:
  virtual ~Policy() = default;

  // True for policies that implement `bind` and `displace`. Arrivals of the others go straight to their lanes.
  virtual bool binds() const { return false; }
  // Whether the policy drops requests that can no longer be in time. If so, the scheduler rejects every waiting request
  // at its deadline, also while no slice falls idle and the policy is not asked.
  virtual bool gives_up() const { return false; }
  // The slice whose own queue `waiting` joins, or nothing: it waits in the shared queue of its bucket. Only asked while
  // some slice serves the request.
  virtual std::optional<Binding> bind(const View& view, const Waiting& waiting);
  // The requests that give way so that `bind` finds a slice for `request`, which it does not now. They wait in lanes
  // from then on. Also asked before a request is rejected as too late: if others give way to it, it is admitted.
  virtual Displacement displace(const View& view, const Request& request, std::uint32_t bucket);
  // The requests in the queue of `slice`, which is idle, that give way because not all of them can be in time any more.
  // They wait in lanes from then on. Asked until it returns none.
  virtual Displacement relieve(const View& view, SliceId slice);
  // What `slice`, which is idle and has a queue of its own, does before it turns to that queue: it starts a late
  // request, drops one (then it is asked again), or nothing (wait).
  virtual Choice before_own(const View& view, SliceId slice);
  // How many requests of its own queue `slice`, which is idle, runs next: at least one.
  virtual std::uint32_t next_bound(const View& view, SliceId slice);

  // A request waits in `lane`. Which idle slice, if any, should run what?
  virtual Choice on_waiting(const View& view, LaneId lane);
  // `slice` is idle and nothing is bound to it. What should it run?
  virtual Choice on_idle(const View& view, SliceId slice);
};

struct PolicyInfo {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Policy> (*make)(const PolicyConfig&);
};

// In the order of policies.def.
std::span<const PolicyInfo> policies();
// The policy with this name, or null.
const PolicyInfo* find_policy(std::string_view name);

// Helpers that several policies share.
//
// The largest number of requests from the front of `lane` that `pool` may run as one batch, of which the first
// is still in time by the predicted p99, or as many as fit if it is late already. Zero if the pool does not take the
// bucket.
std::uint32_t batch_in_time(const View& view, PoolId pool, LaneId lane, bool merge);
// The same from a request of the lane that is not its first.
std::uint32_t batch_in_time_from(const View& view, PoolId pool, const Lane& lane, const Waiting& first, bool merge);

// Fills a batch of one lane (parts[0]) with requests of its bucket that hold other numbers of samples and wait in lanes
// of their own, earlier deadlines first: as long as every member is in time, or as many as fit if the first is late
// already, and the run takes no longer than `run_max`. Late lanes hold all numbers of samples and are left alone.
void fill_across_samples(const View& view, PoolId pool, Duration run_max, Choice* choice);

}  // namespace tangram::sched

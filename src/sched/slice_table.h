// The slices of the scheduler: what each is doing, and the orders in which they are looked for.
//
// The only writer of a slice's status, of its place in the heap and the lists of its pool, and of the counts of slices.
// Readers get const slices and pools; every change goes through a function below, which keeps the invariants:
//   - a slice is in `by_free_time` of its pool, under its `free_at`, exactly while it serves;
//   - a slice is in `idle` of its pool exactly while it serves and is idle, in `backed_up` exactly while it serves, is
//     busy and has requests bound to it, and in no other list;
//   - `present` counts the slices of the pool that are neither gone nor retiring;
//   - busy_count() counts the slices with the status busy.
//
// The life of a slice:
//   planned -> idle                        join
//   idle -> busy -> idle                   go_busy, go_idle
//   idle, busy -> restarting -> idle       go_away, join
//   idle -> lent -> recalling -> restarting -> idle
//                                          go_away three times, join
//   any -> gone                            leave, retire
// A slice that leaves while it is not idle is `retiring` until it is free; then the caller retires it.
//
// The class has more than 30 functions because no other code may write: nine of them are one-line readers, and each
// transition above is one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/time.h"
#include "core/ids.h"
#include "sched/bound_queue.h"
#include "sched/deployment.h"
#include "sched/slice_heap.h"
#include "sched/slice_memory.h"

namespace tangram::sched {

enum class SliceStatus : std::uint8_t {
  idle,
  busy,
  planned,     // Not cut yet.
  restarting,  // The World was asked to bring it back.
  lent,        // With training.
  recalling,   // With training, and asked back.
  gone,        // Of a plan that is no longer served.
};

// The lists of a pool.
enum class SliceListKind : std::uint8_t { none, idle, backed_up };

// What the World was asked about the running batch; see World::stop.
enum class StopAsked : std::uint8_t { none, may, must };

struct SliceState {
  Place place;
  SliceStatus status = SliceStatus::idle;
  bool retiring = false;  // To be given up as soon as it is free.
  TimePoint free_at;      // When its batch and the work bound to it should be done; in the past when it is idle.
  TimePoint started;
  TimePoint idle_since;
  BatchId batch;
  ServiceId batch_service;
  std::uint32_t batch_bucket = 0;  // The number of buckets after a change of plan that no longer has its bucket.
  std::int32_t batch_samples = 0;
  bool batch_cold = false;                 // Its model had to be loaded, ...
  Duration batch_load{};                   // ... in this time; zero: not known.
  StopAsked stop_asked = StopAsked::none;  // Of the running batch.
  OnDemandModels on_demand;                // Models that are loaded now and need not be.
  BoundQueue bound;                        // Requests that wait for this slice alone.
  std::vector<const Request*> members;     // Of the running batch.
  SliceListKind listed = SliceListKind::none;
  std::uint32_t list_next = kNone;  // Neighbours in the list of the pool that it is in.
  std::uint32_t list_previous = kNone;

  static constexpr std::uint32_t kNone = UINT32_MAX;
};

// True while batches may be sent to the slice, now or after its current one.
inline bool serves(const SliceState& slice) {
  return !slice.retiring && (slice.status == SliceStatus::idle || slice.status == SliceStatus::busy);
}

// The list that a slice belongs to, by its status and its queue.
inline SliceListKind list_for(const SliceState& slice) {
  if (slice.retiring) return SliceListKind::none;
  if (slice.status == SliceStatus::idle) return SliceListKind::idle;
  return slice.status == SliceStatus::busy && !slice.bound.empty() ? SliceListKind::backed_up : SliceListKind::none;
}

// A list through the slices themselves.
struct SliceList {
  std::uint32_t first = SliceState::kNone;
  std::uint32_t last = SliceState::kNone;
  std::uint32_t count = 0;
};

struct PoolState {
  explicit PoolState(std::vector<std::uint32_t>* positions) : by_free_time(positions) {}

  SliceHeap by_free_time;     // All slices that serve.
  SliceList idle;             // Longest idle first.
  std::uint32_t present = 0;  // Slices that serve or will again: lent and restarting ones count, retiring ones do not.
  SliceList backed_up;        // Busy slices with requests bound to them, in the order in which they came to have any.
};

// A batch that starts.
struct BatchStart {
  BatchId id;
  ServiceId service;
  std::uint32_t bucket = 0;
  std::int32_t samples = 0;
  TimePoint now;
  Duration predicted{};
  bool cold = false;
  Duration load{};  // Part of `predicted`.
};

class SliceTable {
 public:
  SliceTable() = default;
  SliceTable(const SliceTable&) = delete;  // The heaps point to `heap_positions_`.
  SliceTable& operator=(const SliceTable&) = delete;

  // ---- Reading ----

  const SliceState& operator[](std::size_t index) const { return slices_[index]; }
  std::size_t size() const { return slices_.size(); }
  bool empty() const { return slices_.empty(); }
  auto begin() const { return slices_.begin(); }
  auto end() const { return slices_.end(); }
  std::span<const SliceState> all() const { return slices_; }
  const PoolState& pool(PoolId id) const { return pools_[id.index()]; }
  std::span<const PoolState> pools() const { return pools_; }
  std::size_t busy_count() const { return busy_; }

  // ---- Plans ----

  // One idle slice for each place, then as rebuild.
  void reset(std::span<const Place> places, std::size_t pool_count);
  // Gives slice i the place `places[i]`, adds a planned slice for each place that is left, and builds the pools anew
  // from the slices that serve. Requires that nothing is bound to any slice.
  void rebuild(std::span<const Place> places, std::size_t pool_count);
  // A running batch has another bucket from now on, because its service has other buckets.
  void rename_batch(SliceId id, ServiceId service, std::uint32_t bucket) {
    at(id).batch_service = service;
    at(id).batch_bucket = bucket;
  }

  // ---- Batches ----

  // The list of members for the next batch of an idle slice, which is empty. Valid until the slice goes busy.
  BatchDraft draft(SliceId id) {
    SliceState& slice = at(id);
    TANGRAM_CHECK(slice.status == SliceStatus::idle && !slice.retiring, "a batch starts on an idle slice");
    return {slice.members};
  }
  // Requires an idle slice that serves and whose members are those of the draft. Its queue waits until the batch ends.
  void go_busy(SliceId id, const BatchStart& start) {
    SliceState& slice = at(id);
    slice.status = SliceStatus::busy;
    ++busy_;
    file(id, slice);
    slice.started = start.now;
    slice.batch = start.id;
    slice.batch_service = start.service;
    slice.batch_bucket = start.bucket;
    slice.batch_samples = start.samples;
    slice.batch_cold = start.cold;
    slice.batch_load = start.load;
    slice.stop_asked = StopAsked::none;
    set_free_at(id, slice, start.now + start.predicted + Duration(slice.bound.work_ns()));
  }
  // The batch of a slice that does not retire has ended. `free_at` moves to `now` unless more work is bound to it.
  void go_idle(SliceId id, TimePoint now) {
    SliceState& slice = at(id);
    slice.status = SliceStatus::idle;
    --busy_;
    slice.idle_since = now;
    file(id, slice);
    if (slice.free_at > now && slice.bound.empty()) set_free_at(id, slice, now);
  }
  // A batch of a model that is loaded on demand is about to start on an idle slice.
  OnDemandModels::Use use_on_demand(SliceId id, const Pool& pool, const PoolService& entry) {
    return at(id).on_demand.use(pool, entry);
  }
  // The World was asked to stop the batch of a busy slice.
  void note_stop(SliceId id, StopAsked asked) { at(id).stop_asked = asked; }
  // The batch that was to load the copy has failed.
  void forget_on_demand(SliceId id, ServiceId copy) { at(id).on_demand.forget(copy); }
  // The members of a batch that has ended have been answered, or put back.
  void clear_members(SliceId id) { at(id).members.clear(); }

  // ---- Own queues: as in BoundQueue, with `free_at` and the lists kept in step ----

  // Appends to the queue of an idle slice, which is about to take it.
  void append(SliceId id, Waiting* waiting, bool joins) {
    at(id).bound.append(waiting, joins);
    waiting->place = RecordPlace::bound;
    waiting->holder = id.value();
  }
  // Binds a request to a busy slice that serves.
  template <typename RunTime>
  void bind(SliceId id, Waiting* waiting, bool joins, TimePoint now, const RunTime& run_time) {
    SliceState& slice = at(id);
    slice.bound.bind(waiting, joins, run_time);
    waiting->place = RecordPlace::bound;
    waiting->holder = id.value();
    file(id, slice);
    set_free_at(id, slice, std::max(slice.free_at, now) + Duration(waiting->bound_cost_ns));
  }
  template <typename RunTimes>
  void unbind(SliceId id, Waiting* waiting, const RunTimes& run_times) {
    SliceState& slice = at(id);
    const std::int64_t before = slice.bound.work_ns();
    slice.bound.unbind(waiting, run_times);
    file(id, slice);
    set_free_at(id, slice, slice.free_at - Duration(before - slice.bound.work_ns()));
  }
  // Takes the next batch of an idle slice out of its own queue. go_busy must follow: it sets `free_at` and the list.
  void take_own(SliceId id, std::uint32_t count, BatchDraft& batch) { at(id).bound.take(count, batch); }
  // Takes the first batch that waits for `from`, for another slice.
  void take_first_batch(SliceId from, BatchDraft& batch);
  // Empties the queue of a slice that does not serve any more.
  std::vector<Waiting*> clear_bound(SliceId id);
  // Empties all queues, in the order of slices; `free_at` goes back by the work that was bound. rebuild must follow.
  std::vector<Waiting*> clear_all_bound();

  // ---- Slices that come and go. count_capacity of the State must follow those that say so ----

  // A planned or restarting slice is there and idle. Count.
  void join(SliceId id, TimePoint now);
  // A slice stops serving for a while, or takes the next step of its way back: from idle or busy to restarting, from
  // idle to lent, from lent to recalling, from recalling to restarting. Count if it was idle or busy.
  void go_away(SliceId id, SliceStatus status);
  // The plan in force does not have the slice: it serves no more, and is gone at once if it is idle. Count.
  void leave(SliceId id);
  // A retiring slice is free, or a planned one will not be cut: it is gone. Count if it was planned.
  void retire(SliceId id);

 private:
  SliceState& at(SliceId id) { return slices_[id.index()]; }
  PoolState& pool_of(const SliceState& slice) { return pools_[slice.place.pool.index()]; }
  SliceList* list_of(const SliceState& slice);
  // Puts the slice into the list where its status and its queue say that it belongs, at the end, or into none.
  void file(SliceId id, SliceState& slice) {
    const SliceListKind wanted = list_for(slice);
    if (wanted != slice.listed) relist(id, wanted);
  }
  void relist(SliceId id, SliceListKind wanted);
  void set_free_at(SliceId id, SliceState& slice, TimePoint when) {
    slice.free_at = when;
    if (serves(slice)) pool_of(slice).by_free_time.update(id, when.time_since_epoch().count());
  }
  // Changes the status and with it busy_count and `present`. Touches neither heap nor lists.
  void set_status(SliceState& slice, SliceStatus status);

  std::vector<SliceState> slices_;
  std::vector<PoolState> pools_;
  std::vector<std::uint32_t> heap_positions_;  // By slice: its place in the heap of its pool.
  std::size_t busy_ = 0;
};

// Which invariant of the table does not hold, as a sentence; empty if all do. Costs all slices, times the pools, and
// their queues; for tests.
std::string why_broken(const SliceTable& table);

}  // namespace tangram::sched

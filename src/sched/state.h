// The scheduler's memory, as policies may read it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/strong_id.h"
#include "base/time.h"
#include "core/request.h"
#include "sched/deployment.h"
#include "sched/slice_heap.h"

namespace tangram::sched {

using LaneId = StrongId<struct LaneTag>;

// A request that has been admitted and not resolved.
struct Waiting {
  Request request;
  Waiting* next = nullptr;
  Waiting* previous = nullptr;
  std::uint32_t bucket = 0;
  std::uint8_t attempts = 0;       // Runs that failed.
  bool alone = false;              // It was in a batch that its engine refused: its next run shares no batch.
  bool opens_batch = true;         // First of its batch in the queue of a slice; the others joined it.
  std::int64_t bound_cost_ns = 0;  // What it added to the work of the slice it is bound to.
};

// Waiting requests in the order in which they will run: higher priority first, then earlier deadline, then earlier
// arrival. Inserting walks from the tail, which is one step while all requests of a queue have one Slo.
class RequestQueue {
 public:
  bool empty() const { return head_ == nullptr; }
  std::uint32_t count() const { return count_; }
  std::int64_t samples() const { return samples_; }
  Waiting* front() const { return head_; }
  Waiting* back() const { return tail_; }

  void insert(Waiting* waiting) {
    Waiting* before = tail_;
    while (before != nullptr && goes_before(*waiting, *before)) before = before->previous;
    insert_after(before, waiting);
  }
  // At the end, whatever its deadline: for queues that promise first come, first served.
  void append(Waiting* waiting) { insert_after(tail_, waiting); }
  void erase(Waiting* waiting) {
    (waiting->previous == nullptr ? head_ : waiting->previous->next) = waiting->next;
    (waiting->next == nullptr ? tail_ : waiting->next->previous) = waiting->previous;
    waiting->next = waiting->previous = nullptr;
    --count_;
    samples_ -= waiting->request.samples;
  }
  Waiting* pop_front() {
    Waiting* first = head_;
    erase(first);
    return first;
  }

 private:
  static bool goes_before(const Waiting& a, const Waiting& b) {
    if (a.request.priority != b.request.priority) return a.request.priority > b.request.priority;
    if (a.request.deadline != b.request.deadline) return a.request.deadline < b.request.deadline;
    return a.request.id < b.request.id;
  }
  // Null: at the head.
  void insert_after(Waiting* before, Waiting* waiting) {
    waiting->previous = before;
    waiting->next = before == nullptr ? head_ : before->next;
    (before == nullptr ? head_ : before->next) = waiting;
    (waiting->next == nullptr ? tail_ : waiting->next->previous) = waiting;
    ++count_;
    samples_ += waiting->request.samples;
  }

  Waiting* head_ = nullptr;
  Waiting* tail_ = nullptr;
  std::uint32_t count_ = 0;
  std::int64_t samples_ = 0;
};

// The shared queue of one bucket of one service. Requests that hold several samples wait apart by their number in
// steps of a quarter octave, because they cost differently; each service has one more lane for those that are too late
// to be in time anywhere.
struct Lane {
  ServiceId service;
  std::uint32_t bucket = 0;  // Of the late lane: the largest.
  bool late = false;
  RequestQueue queue;
  TimePoint hold = kTimeNever;  // When the policy wants to be asked again.
  SliceId open_slice;  // Where the last batch of this lane was opened; its tail tells whether it is open still.
};

// The last batch that waits for a slice. Joining it delays nothing but itself.
struct OpenBatch {
  ServiceId service;
  std::uint32_t bucket = 0;
  std::int32_t samples = 0;  // 0: there is none.
  TimePoint deadline;        // The earliest of its members'.
  std::int64_t size = 0;     // Of its first member; where inputs are not padded, of all.
};

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

struct SliceState {
  Place place;
  SliceStatus status = SliceStatus::idle;
  bool retiring = false;  // To be given up as soon as it is free.
  TimePoint free_at;      // When the work that it has or is bound to should be done; in the past when it is idle.
  TimePoint started;
  TimePoint idle_since;
  BatchId batch;
  ServiceId batch_service;
  std::uint32_t batch_bucket = 0;
  std::int32_t batch_samples = 0;
  std::int64_t bound_work_ns = 0;       // Predicted time of the requests that are bound to it and wait.
  RequestQueue bound;                   // Requests that wait for this slice alone.
  OpenBatch tail;                       // The last batch in `bound`, which further requests may join.
  std::vector<const Request*> members;  // Of the running batch.
  SliceListKind listed = SliceListKind::none;
  std::uint32_t list_next =
      kNone;  // Neighbours in the pool's list of idle slices, or of slices with work bound to them.
  std::uint32_t list_previous = kNone;

  static constexpr std::uint32_t kNone = UINT32_MAX;
};

// A list through the slices themselves. A slice stands in one list at most.
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

struct ServiceState {
  std::uint32_t lanes_begin = 0;
  std::uint32_t classes = 0;            // Lanes per bucket.
  std::vector<std::uint64_t> occupied;  // One bit a lane that is not empty.
  std::int64_t backlog_ns = 0;          // How long all its slices together need for what waits and is not late.
  std::uint32_t slices = 0;             // That serve it now.
  std::vector<double> drain_ns;         // By bucket: backlog of one sample.
  double lost_share = 0;                // Of its requests, lately: those that were not answered in time.

  void note_resolved(bool lost) { lost_share += ((lost ? 1.0 : 0.0) - lost_share) / kLossMemory; }
  static constexpr double kLossMemory = 512;  // Requests.

  std::int64_t backlog_of(const Waiting& waiting) const {
    return static_cast<std::int64_t>(drain_ns[waiting.bucket] * waiting.request.samples);
  }
};

// Steps of a quarter octave: 1, 2, ..., 8, 10, 12, 14, 16, 20, ...
inline std::uint32_t sample_class(std::int32_t samples) {
  if (samples <= 8) return static_cast<std::uint32_t>(samples - 1);
  const auto before = static_cast<std::uint32_t>(samples - 1);
  const auto octave = static_cast<std::uint32_t>(std::bit_width(before)) - 1;
  return 8 + 4 * (octave - 3) + ((before >> (octave - 2)) & 3);
}

// The number of requests that may wait or run at any time; one more is refused.
inline constexpr std::size_t kRequestsMaxDefault = 1'000'000;

// Hands out Waiting records from blocks that it keeps, so that the steady state allocates nothing.
class RequestStore {
 public:
  explicit RequestStore(std::size_t limit) : limit_(limit) {}

  bool full() const { return used_ >= limit_; }
  std::size_t used() const { return used_; }
  // The caller has asked whether there is room.
  Waiting* take(const Request& request, std::uint32_t bucket) {
    TANGRAM_CHECK(!full(), "the caller asks before it takes");
    if (free_ == nullptr) [[unlikely]]
      add_block();
    Waiting* taken = free_;
    free_ = taken->next;
    *taken = {.request = request, .bucket = bucket};
    ++used_;
    return taken;
  }
  void give_back(Waiting* waiting) {
    waiting->next = free_;
    free_ = waiting;
    --used_;
  }

 private:
  static constexpr std::size_t kBlock = 1024;

  void add_block();

  std::size_t limit_;
  std::size_t used_ = 0;
  std::vector<std::unique_ptr<Waiting[]>> blocks_;
  Waiting* free_ = nullptr;
};

// What measurements taught about the predictions, smoothed: the measured over the predicted mean, and how far run times
// spread. One pair for each pool, service, bucket and class of batch sizes.
class Corrections {
 public:
  // The share of the newest measurement in the factor; zero switches corrections off.
  explicit Corrections(double weight) : weight_(weight) {}

  // Starts anew for `deployment`, but keeps what is known of kinds of slices, services and buckets that it still has.
  void resize(const Deployment& deployment);
  double factor(std::size_t row, std::size_t bucket, std::int32_t samples) const {
    return weight_ == 0 ? 1.0 : cells_[at(row, bucket, samples)].factor;
  }
  // How far the p99 lies above the mean, as a share of it; negative: nothing was measured.
  double spread(std::size_t row, std::size_t bucket, std::int32_t samples) const {
    return weight_ == 0 ? -1.0 : cells_[at(row, bucket, samples)].spread;
  }
  // `ratio`: a measured over the predicted mean; `spread`: what the prediction has for it.
  //
  // Of a normal distribution the p99 lies 2.33 and the mean distance 0.80 standard deviations from the mean. A spread
  // needs more measurements than a mean, so it moves at a quarter of the weight.
  void learn(std::size_t row, std::size_t bucket, std::int32_t samples, double ratio, double spread) {
    if (weight_ == 0) return;
    Cell& cell = cells_[at(row, bucket, samples)];
    ratio = std::min(ratio, kOutlier * cell.factor);
    if (cell.spread < 0) cell.spread = spread;
    const double distance = std::abs(ratio / cell.factor - 1);
    cell.spread += weight_ / 4 * (2.33 / 0.80 * distance - cell.spread);
    cell.factor += weight_ * (ratio - cell.factor);
  }
  // A step back to the prediction, whose spread is `spread`: for corrections that keep anything from being measured.
  void doubt(std::size_t row, std::size_t bucket, std::int32_t samples, double spread);
  bool on() const { return weight_ != 0; }

 private:
  // A run that took this many times what was expected counts as this many: the machine stood still, or a process did.
  static constexpr double kOutlier = 10;

  struct Cell {
    double factor = 1;
    double spread = -1;
  };
  // Where the cells of a row begin, and how many it has for each bucket.
  struct Extent {
    std::size_t begin = 0;
    std::size_t classes = 0;
  };
  // What a row is about, whatever its number.
  struct Row {
    std::string kind;
    ServiceId service;
    std::vector<std::int64_t> edges;
    Extent cells;
  };

  std::size_t at(std::size_t row, std::size_t bucket, std::int32_t samples) const {
    return extents_[row].begin + bucket * extents_[row].classes + sample_class(samples);
  }
  void keep(const Row& before, const std::vector<Cell>& cells, const Row& row);

  double weight_;
  std::vector<Row> rows_;        // By PoolService, in order of pools.
  std::vector<Extent> extents_;  // Of the rows, side by side: every prediction looks here.
  std::vector<Cell> cells_;
};

// True while batches may be sent to the slice, now or after its current one.
inline bool serves(const SliceState& slice) {
  return !slice.retiring && (slice.status == SliceStatus::idle || slice.status == SliceStatus::busy);
}

// Everything together.
struct State {
  State(Deployment d, std::size_t requests_max, double correction_weight);

  Deployment deployment;
  std::vector<std::uint32_t> heap_positions;
  std::vector<SliceState> slices;
  std::vector<PoolState> pools;
  std::vector<ServiceState> services;
  std::vector<Lane> lanes;
  std::vector<std::size_t> first_row;  // By pool: the number of its first PoolService.
  RequestStore store;
  Corrections corrections;
  TimePoint now;

  // The lane of a request that is not late.
  LaneId lane_of(ServiceId service, std::uint32_t bucket, std::int32_t samples) const {
    const ServiceState& s = services[service.index()];
    return LaneId(s.lanes_begin + bucket * s.classes + sample_class(samples));
  }
  LaneId late_lane_of(ServiceId service) const {
    const ServiceState& s = services[service.index()];
    return LaneId(s.lanes_begin +
                  static_cast<std::uint32_t>(deployment.services[service.index()].edges.size()) * s.classes);
  }

  // Builds lanes and pools anew for `deployment` from the slices that serve. Nothing may be waiting in a lane.
  void build();
  // How many slices serve each service, and how fast they drain its lanes, after slices came or went.
  void count_capacity();
  // Puts the slice into the list of its pool where its status and its queue say that it belongs, or into none.
  void file(SliceId slice);
  SliceList* list_of(const SliceState& slice) {
    PoolState& pool = pools[slice.place.pool.index()];
    if (slice.listed == SliceListKind::idle) return &pool.idle;
    return slice.listed == SliceListKind::backed_up ? &pool.backed_up : nullptr;
  }
  void lane_insert(LaneId id, Waiting* waiting) {
    Lane& lane = lanes[id.index()];
    ServiceState& service = services[lane.service.index()];
    lane.queue.insert(waiting);
    const std::uint32_t bit = id.value() - service.lanes_begin;
    service.occupied[bit / 64] |= std::uint64_t{1} << (bit % 64);
    if (!lane.late) service.backlog_ns += service.backlog_of(*waiting);
  }
  void lane_erase(LaneId id, Waiting* waiting) {
    Lane& lane = lanes[id.index()];
    ServiceState& service = services[lane.service.index()];
    lane.queue.erase(waiting);
    if (lane.queue.empty()) {
      const std::uint32_t bit = id.value() - service.lanes_begin;
      service.occupied[bit / 64] &= ~(std::uint64_t{1} << (bit % 64));
      lane.hold = kTimeNever;
    }
    if (!lane.late) service.backlog_ns -= service.backlog_of(*waiting);
  }
};

}  // namespace tangram::sched

// The requests that wait for one slice, grouped into the batches they will run in.
//
// First come, first served: a request is appended, and either opens a new batch or joins the last one. After bind(a),
// bind(b, joins), bind(c) the batches are {a, b} and {c}, and tail() describes {c}. Each request is charged with the
// predicted run time that it adds to its batch: where a batch of one takes 4 ms and a batch of two 7 ms, a is charged
// with 4 ms and b with 3 ms. The sum of the charges tells how long the slice will be busy with its queue.
//
// Run times come from the caller, so that this class needs no deployment: `run_time(bucket, samples)` is the mean run
// time of one service on the slice, `run_times(service)` returns such a function.
//
// Invariants, see why_broken:
//   - work_ns() is the sum of bound_cost_ns over the queue;
//   - the first request opens a batch;
//   - an open tail (samples > 0) counts the samples and the earliest deadline of the last batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/time.h"
#include "core/ids.h"
#include "sched/request_queue.h"

namespace tangram::sched {

// The last batch that waits for a slice. Joining it delays no other batch.
struct OpenBatch {
  ServiceId service;
  std::uint32_t bucket = 0;
  std::int32_t samples = 0;  // 0: there is none, or it must run alone.
  TimePoint deadline;        // The earliest of its members'.
  std::int64_t size = 0;     // Of its first member; where inputs are not padded, of all.
};

class BoundQueue {
 public:
  bool empty() const { return requests_.empty(); }
  std::uint32_t count() const { return requests_.count(); }
  Waiting* front() const { return requests_.front(); }
  Waiting* back() const { return requests_.back(); }
  const OpenBatch& tail() const { return tail_; }
  // Predicted time of all batches in the queue.
  std::int64_t work_ns() const { return work_ns_; }
  operator const RequestQueue&() const { return requests_; }  // NOLINT: to readers it is a queue like any other.

  // Appends a request that an idle slice is about to take: it is charged with nothing.
  void append(Waiting* waiting, bool joins) {
    requests_.append(waiting);
    waiting->opens_batch = !joins;
  }

  // Appends a request and charges it. `joins`: it joins the open batch, which must be of its service and of a bucket
  // that covers its own, unless it must run alone.
  template <typename RunTime>
  void bind(Waiting* waiting, bool joins, const RunTime& run_time) {
    append(waiting, joins);
    const Request& request = waiting->request;
    if (joins) {
      TANGRAM_CHECK(tail_.samples > 0 && tail_.service == request.queue && waiting->bucket <= tail_.bucket,
                    "a request joins a batch of its service that is open");
      const Duration before = run_time(tail_.bucket, tail_.samples);
      tail_.samples += request.samples;
      tail_.deadline = std::min(tail_.deadline, request.deadline);
      waiting->bound_cost_ns = (run_time(tail_.bucket, tail_.samples) - before).count();
    } else {
      tail_ = {request.queue, waiting->bucket, waiting->alone ? 0 : request.samples, request.deadline, request.size};
      waiting->bound_cost_ns = run_time(waiting->bucket, request.samples).count();
    }
    work_ns_ += waiting->bound_cost_ns;
  }

  // Takes out one request from any place of the queue. The rest of its batch stays together and is charged anew; the
  // last batch becomes the open one.
  template <typename RunTimes>
  void unbind(Waiting* waiting, const RunTimes& run_times) {
    Waiting* first = waiting;
    while (!first->opens_batch) first = first->previous;
    if (first == waiting) first = waiting->next;
    if (waiting->opens_batch && first != nullptr && first->opens_batch) first = nullptr;  // It was a batch of its own.
    requests_.erase(waiting);
    work_ns_ -= waiting->bound_cost_ns;
    waiting->bound_cost_ns = 0;
    waiting->opens_batch = true;
    if (first != nullptr) recount(first, run_times(first->request.queue));
    tail_ = {};
    if (Waiting* last = requests_.back()) {
      while (!last->opens_batch) last = last->previous;
      recount(last, run_times(last->request.queue));
    }
  }

  // Moves the first `count` requests into `batch`, or fewer if one of them must run alone: usually whole batches. The
  // rest of a batch that is cut stays together, and closes the open batch. Requires 0 < count <= count().
  void take(std::uint32_t count, BatchDraft& batch) {
    TANGRAM_CHECK(count > 0 && count <= requests_.count(), "a slice takes what is there");
    for (std::uint32_t n = 0; n < count && batch.may_add(*requests_.front()); ++n) {
      Waiting* waiting = requests_.pop_front();
      work_ns_ -= waiting->bound_cost_ns;
      waiting->bound_cost_ns = 0;
      batch.add(waiting);
    }
    if (requests_.empty()) {
      tail_ = {};
    } else if (!requests_.front()->opens_batch) {
      requests_.front()->opens_batch = true;
      tail_ = {};
    }
  }

  // How many requests the first batch holds. The queue is not empty.
  std::uint32_t first_batch_count() const {
    std::uint32_t count = 1;
    for (const Waiting* next = front()->next; next != nullptr && !next->opens_batch; next = next->next) ++count;
    return count;
  }

  // Empties the queue: all requests in their order, charged with nothing.
  std::vector<Waiting*> clear();

  // Which invariant does not hold, as a sentence; empty if all do. Costs the length of the queue; for tests.
  std::string why_broken() const;

 private:
  // Charges the members of the batch that `first` opens with what each adds to it, and makes it the open batch.
  template <typename RunTime>
  void recount(Waiting* first, const RunTime& run_time) {
    OpenBatch batch{first->request.queue, first->bucket, 0, kTimeNever, first->request.size};
    first->opens_batch = true;
    const auto in_batch = [&](const Waiting* w) { return w == first || (w != nullptr && !w->opens_batch); };
    for (const Waiting* w = first; in_batch(w); w = w->next) batch.bucket = std::max(batch.bucket, w->bucket);
    Duration cost{};
    for (Waiting* w = first; in_batch(w); w = w->next) {
      batch.samples += w->request.samples;
      batch.deadline = std::min(batch.deadline, w->request.deadline);
      const Duration grown = run_time(batch.bucket, batch.samples);
      work_ns_ += (grown - cost).count() - w->bound_cost_ns;
      w->bound_cost_ns = (grown - cost).count();
      cost = grown;
    }
    tail_ = first->alone ? OpenBatch{} : batch;
  }

  RequestQueue requests_;
  OpenBatch tail_;
  std::int64_t work_ns_ = 0;
};

}  // namespace tangram::sched

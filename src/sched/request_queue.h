// Admitted requests: their records, and the queues that records wait in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "core/request.h"

namespace tangram::sched {

// Where the record of a request is.
enum class RecordPlace : std::uint8_t {
  none,        // In no queue and no batch: on its way from one to another.
  lane,        // `holder` is the lane.
  bound,       // In the queue of one slice; `holder` is the slice.
  background,  // In the background.
  running,     // A member of a batch; `holder` is the slice.
};

// Names a record of the store for as long as its request is not resolved. See RequestStore::find.
using RecordNumber = std::uint32_t;
inline constexpr RecordNumber kNoRecord = UINT32_MAX;

// The record of a request that has been admitted and not resolved. It is in exactly one queue (a lane, the queue of a
// slice, the background) or a member of a running batch.
struct Waiting {
  Request request;  // First, so that record_of works.
  Waiting* next = nullptr;
  Waiting* previous = nullptr;
  std::uint32_t bucket = 0;
  std::uint8_t attempts = 0;       // Runs that failed.
  bool alone = false;              // Its engine failed the batch it was in: it shares no further batch.
  bool opens_batch = true;         // First of its batch in the queue of a slice; the others joined it.
  bool abandoned = false;          // Its caller has gone while it ran: it is not answered, and runs no more.
  std::int64_t bound_cost_ns = 0;  // What it added to the work of the slice it is bound to; 0 elsewhere.
  RecordPlace place = RecordPlace::none;
  std::uint32_t holder = 0;
  RecordNumber number = kNoRecord;  // Of this record in the store, whatever request it holds.
};

// The record that holds `request`, which must be in a RequestStore: the World and the policies only see const requests
// and records, the scheduler owns them. A pointer to a standard-layout object and one to its first member convert into
// each other ([basic.compound] 4), so this is a change of type and costs nothing.
inline Waiting* record_of(const Request* request) {
  static_assert(std::is_standard_layout_v<Waiting> && offsetof(Waiting, request) == 0);
  return reinterpret_cast<Waiting*>(const_cast<Request*>(request));
}

// Records in the order in which they will run: higher priority first, then earlier deadline, then earlier arrival.
// Inserting walks from the tail, which is one step while all requests of a queue have one Slo.
class RequestQueue {
 public:
  bool empty() const { return head_ == nullptr; }
  std::uint32_t count() const { return count_; }
  std::int64_t samples() const { return samples_; }
  Waiting* front() const { return head_; }
  Waiting* back() const { return tail_; }

  void insert(Waiting* waiting) {
    Waiting* before = tail_;
    while (before != nullptr && goes_before(waiting->request, before->request)) before = before->previous;
    insert_after(before, waiting);
  }
  // At the end, whatever its deadline: for queues that promise first come, first served.
  void append(Waiting* waiting) { insert_after(tail_, waiting); }
  // `waiting` is in this queue.
  void erase(Waiting* waiting) {
    (waiting->previous == nullptr ? head_ : waiting->previous->next) = waiting->next;
    (waiting->next == nullptr ? tail_ : waiting->next->previous) = waiting->previous;
    waiting->next = waiting->previous = nullptr;
    --count_;
    samples_ -= waiting->request.samples;
  }
  // The queue is not empty.
  Waiting* pop_front() {
    Waiting* first = head_;
    erase(first);
    return first;
  }

  // The samples of the requests that go before `request`, which is not in this queue. Requires a queue that is in
  // order. Walks from both ends at a time, so it costs the shorter of the two parts.
  std::int64_t samples_before(const Request& request) const {
    std::int64_t before = 0;
    std::int64_t behind = 0;
    const Waiting* first = head_;
    for (const Waiting* last = tail_; last != nullptr && goes_before(request, last->request); last = last->previous) {
      if (!goes_before(first->request, request)) return before;
      behind += last->request.samples;
      before += first->request.samples;
      first = first->next;
    }
    return samples_ - behind;
  }

 private:
  static bool goes_before(const Request& a, const Request& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.deadline != b.deadline) return a.deadline < b.deadline;
    return a.id < b.id;
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

// A batch as it is put together, in the list of members that its slice keeps.
struct BatchDraft {
  std::vector<const Request*>& members;
  std::int32_t samples = 0;
  std::uint32_t bucket = 0;  // The largest of any member.

  // False if `waiting` or the first member must run alone.
  bool may_add(const Waiting& waiting) const {
    return members.empty() || (!waiting.alone && !record_of(members.front())->alone);
  }
  // `waiting` has left its queue.
  void add(const Waiting* waiting) {
    samples += waiting->request.samples;
    bucket = bucket < waiting->bucket ? waiting->bucket : bucket;
    members.push_back(&waiting->request);
  }
};

// The number of requests that may wait or run at any time; one more is rejected.
inline constexpr std::size_t kRequestsMaxDefault = 1'000'000;

// Hands out records from blocks that it keeps, so that the steady state allocates nothing.
class RequestStore {
 public:
  explicit RequestStore(std::size_t limit) : limit_(limit) {}

  bool full() const { return used_ >= limit_; }
  std::size_t used() const { return used_; }
  // A record in no queue. The store must not be full.
  Waiting* take(const Request& request, std::uint32_t bucket) {
    TANGRAM_CHECK(!full(), "the caller asks before it takes");
    if (free_ == nullptr) [[unlikely]]
      add_block();
    Waiting* taken = free_;
    free_ = taken->next;
    *taken = {.request = request, .bucket = bucket, .number = taken->number};
    ++used_;
    return taken;
  }
  // `waiting` came from here and is in no queue and no batch. It must not be used any more.
  void give_back(Waiting* waiting) {
    waiting->place = RecordPlace::none;
    waiting->next = free_;
    free_ = waiting;
    --used_;
  }

  // The record with this number if it holds `request` and that is in a queue or a batch; else null. Constant time.
  Waiting* find(RecordNumber number, RequestId request) const {
    if (number / kBlock >= blocks_.size()) return nullptr;
    Waiting* found = &blocks_[number / kBlock][number % kBlock];
    return found->place != RecordPlace::none && found->request.id == request ? found : nullptr;
  }

 private:
  static constexpr std::size_t kBlock = 1024;

  void add_block();

  std::size_t limit_;
  std::size_t used_ = 0;
  std::vector<std::unique_ptr<Waiting[]>> blocks_;
  Waiting* free_ = nullptr;
};

}  // namespace tangram::sched

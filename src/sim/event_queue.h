// Events in the order in which they will happen.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"

namespace tangram::sim {

// Events at one instant come in this order: completions free slices before arrivals look for them, and wakes come last.
enum class EventLane : std::uint8_t { completion, arrival, wake };

struct Event {
  TimePoint when;
  std::uint64_t order = 0;  // Lane in the two highest bits, then sequence: (when, order) is the one order of events.
  std::uint32_t kind = 0;   // The owner's business.
  std::uint32_t index = 0;
  std::uint64_t tag = 0;
};

// The one order of events. As one number of 128 bits, since the outcome is hard to foresee: a subtraction with borrow
// instead of two branches. Virtual time is not negative.
inline bool comes_before(const Event& a, const Event& b) {
  __extension__ using Wide = unsigned __int128;
  const auto wide = [](const Event& event) {
    return static_cast<Wide>(event.when.time_since_epoch().count()) << 64 | event.order;
  };
  return wide(a) < wide(b);
}

// A four-way heap. Costs: push, and the top after a pop, log4 n; any further top O(1).
//
// Which of two events comes first is unpredictable, so a mispredicted branch would cost more than the comparison. The
// least of four children is therefore found by arithmetic. Behind the last event there are kWays sentinels that never
// come, so every parent has four children.
//
// The end of a batch usually starts the next one. So a popped event leaves a gap at the top, which the next push fills
// in one pass downwards; only if top() is called first does the last event move there.
class EventQueue {
 public:
  EventQueue() : events_(kWays, kNever) {}

  bool empty() const { return size() == 0; }
  std::size_t size() const { return size_ - (gap_ ? 1 : 0); }
  // The next event; of an empty queue one that comes after all others.
  const Event& top() {
    if (gap_) close_gap();
    return events_.front();
  }

  void push(TimePoint when, EventLane lane, std::uint32_t kind, std::uint32_t index, std::uint64_t tag) {
    const Event event{when, (static_cast<std::uint64_t>(lane) << 62) | sequence_++, kind, index, tag};
    if (gap_) {
      gap_ = false;
      sink(event);
    } else {
      if (size_ + kWays == events_.size()) [[unlikely]]
        events_.resize(2 * events_.size(), kNever);
      rise(size_++, event);
    }
  }

  // Of a queue that is not empty.
  Event pop() {
    const Event first = top();
    gap_ = true;
    return first;
  }

 private:
  static constexpr std::size_t kWays = 4;
  static constexpr Event kNever{TimePoint::max(), UINT64_MAX, 0, 0, 0};

  // The index of the earliest of four siblings. Requires the first of them; sentinels count as siblings.
  std::size_t least_of_four(std::size_t child) const {
    const std::size_t a = child + (comes_before(events_[child + 1], events_[child]) ? 1 : 0);
    const std::size_t b = child + 2 + (comes_before(events_[child + 3], events_[child + 2]) ? 1 : 0);
    const std::size_t second = comes_before(events_[b], events_[a]) ? 1 : 0;
    return a + (b - a) * second;
  }

  // Fills the gap with children down to the last row and puts the last event there: it seldom rises from it.
  void close_gap() {
    gap_ = false;
    const Event last = events_[--size_];
    events_[size_] = kNever;
    std::size_t at = 0;
    for (std::size_t child = 1; child < size_; child = kWays * at + 1) {
      const std::size_t least = least_of_four(child);
      events_[at] = events_[least];
      at = least;
    }
    if (size_ > 0) rise(at, last);
  }

  // Inserts the event on the way from the gap at the top to the last row.
  void sink(const Event& event) {
    std::size_t at = 0;
    for (std::size_t child = 1; child < size_; child = kWays * at + 1) {
      const std::size_t least = least_of_four(child);
      if (comes_before(event, events_[least])) break;
      events_[at] = events_[least];
      at = least;
    }
    events_[at] = event;
  }

  // Inserts the event on the way from the gap `at` to the top.
  void rise(std::size_t at, const Event& event) {
    while (at > 0) {
      const std::size_t parent = (at - 1) / kWays;
      if (!comes_before(event, events_[parent])) break;
      events_[at] = events_[parent];
      at = parent;
    }
    events_[at] = event;
  }

  std::vector<Event> events_;
  std::size_t size_ = 0;  // With the gap.
  bool gap_ = false;      // The first event was taken and its place is free.
  std::uint64_t sequence_ = 0;
};

}  // namespace tangram::sim

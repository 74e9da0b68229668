// What will happen, in the order in which it will.
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

// The one order of events.
inline bool comes_before(const Event& a, const Event& b) {
  return a.when != b.when ? a.when < b.when : a.order < b.order;
}

// A four-way heap. Costs: top 1, push and pop log4 n.
class EventQueue {
 public:
  bool empty() const { return events_.empty(); }
  std::size_t size() const { return events_.size(); }
  const Event& top() const { return events_.front(); }

  void push(TimePoint when, EventLane lane, std::uint32_t kind, std::uint32_t index, std::uint64_t tag) {
    const Event event{when, (static_cast<std::uint64_t>(lane) << 62) | sequence_++, kind, index, tag};
    std::size_t at = events_.size();
    events_.push_back(event);
    while (at > 0) {
      const std::size_t parent = (at - 1) / 4;
      if (!comes_before(event, events_[parent])) break;
      events_[at] = events_[parent];
      at = parent;
    }
    events_[at] = event;
  }

  Event pop() {
    const Event first = events_.front();
    const Event last = events_.back();
    events_.pop_back();
    if (events_.empty()) return first;
    std::size_t at = 0;
    while (true) {
      const std::size_t child = 4 * at + 1;
      if (child >= events_.size()) break;
      const std::size_t end = child + 4 < events_.size() ? child + 4 : events_.size();
      std::size_t least = child;
      for (std::size_t c = child + 1; c < end; ++c) {
        if (comes_before(events_[c], events_[least])) least = c;
      }
      if (!comes_before(events_[least], last)) break;
      events_[at] = events_[least];
      at = least;
    }
    events_[at] = last;
    return first;
  }

 private:
  std::vector<Event> events_;
  std::uint64_t sequence_ = 0;
};

}  // namespace tangram::sim

// The future events of the LiveWorld, by time.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "base/time.h"

namespace tangram::serve {

enum class WorldEventKind : std::uint8_t {
  done,
  failed,
  stopped,
  lost,
  restarted,
  not_restarted,
  cut,
  not_cut,
  reshaped,
  returned
};

struct WorldEvent {
  TimePoint when;
  std::uint64_t sequence = 0;
  WorldEventKind kind = WorldEventKind::done;
  std::uint32_t index = 0;  // The device of `cut`, `not_cut` and `reshaped`, the slice of all others.
  std::uint64_t batch = 0;  // Of `done`, `failed` and `stopped`.
  bool operator>(const WorldEvent& other) const {
    return when != other.when ? when > other.when : sequence > other.sequence;
  }
};

// Hands out events by time; those of one time in the order in which they were added.
class EventQueue {
 public:
  void add(TimePoint when, WorldEventKind kind, std::uint32_t index, std::uint64_t batch = 0) {
    events_.push({when, sequence_++, kind, index, batch});
  }
  // kTimeNever: there is none.
  TimePoint next_due() const { return events_.empty() ? kTimeNever : events_.top().when; }
  // Requires one.
  WorldEvent take() {
    const WorldEvent event = events_.top();
    events_.pop();
    return event;
  }

 private:
  std::priority_queue<WorldEvent, std::vector<WorldEvent>, std::greater<>> events_;
  std::uint64_t sequence_ = 0;
};

}  // namespace tangram::serve

// Waits for many sockets on one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "host/descriptor.h"

namespace tangram::host {

// Real time as the World counts it: nanoseconds since this clock was made.
class LiveClock {
 public:
  LiveClock();
  TimePoint now() const;

 private:
  std::int64_t begin_ns_;
};

// Called when a descriptor is ready. A handler may remove itself or others; a removed handler gets no further events.
class Readiness {
 public:
  virtual ~Readiness() = default;
  virtual void on_ready(bool readable, bool writable, bool broken) = 0;
};

enum class Interest : std::uint8_t { none = 0, read = 1, write = 2, both = 3 };

// An epoll loop: level-triggered, with a wake-up from other threads. Waiting is exact to the microsecond.
class EventLoop {
 public:
  EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void add(int descriptor, Interest interest, Readiness* handler);
  void change(int descriptor, Interest interest, Readiness* handler);
  void remove(int descriptor, Readiness* handler);

  // Waits until a descriptor is ready, but at most until `until`, and calls the handlers. kTimeNever sets no limit.
  // Returns how many events there were.
  int wait(const LiveClock& clock, TimePoint until);
  // Any thread, and signal handlers: ends a wait() that is under way, or the next one.
  void wake();
  // True while wait() calls handlers. Only for the thread that waits.
  bool delivering() const { return delivering_; }

 private:
  // Fills the event buffer. Returns the number of events, or a negative number after a signal.
  int wait_exactly(Duration longest);
  // Resets the eventfd, so that wake-ups before this call end only one wait().
  void drain_wakes();

  Descriptor epoll_;
  Descriptor wake_;
  bool exact_ = true;                // The kernel knows epoll_pwait2.
  std::vector<Readiness*> removed_;  // During delivery.
  bool delivering_ = false;
};

}  // namespace tangram::host

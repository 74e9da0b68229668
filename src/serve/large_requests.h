// A thread that reads large requests, so that a thread with sockets does not stop for them.
//
// To convert 60 MiB of JSON takes a second. All other clients of an I/O thread, and the scheduler where it has the same
// thread, would wait for it. This thread gives way to those on the same core.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "host/mutex.h"

namespace tangram::serve {

class LargeRequests {
 public:
  LargeRequests() = default;
  ~LargeRequests() { stop(); }
  LargeRequests(const LargeRequests&) = delete;
  LargeRequests& operator=(const LargeRequests&) = delete;

  // Runs `work` on the thread, one after the other, in the order of the calls. Any thread. What is queued is bounded by
  // the memory that its requests are charged for. The thread is started with the first work.
  void run(std::function<void()> work) EXCLUDES(mutex_);
  // Ends the thread after the work that it does now. What is queued never runs.
  void stop() EXCLUDES(mutex_);

 private:
  void work() EXCLUDES(mutex_);

  host::Mutex mutex_;
  host::CondVar changed_;
  std::deque<std::function<void()>> queue_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);
};

}  // namespace tangram::serve

// The signals that a server handles, as events of its loop.
#pragma once

#include <functional>

#include "host/event_loop.h"

namespace tangram::serve {

// Blocks SIGTERM, SIGINT and SIGHUP for Server::run, in this thread and the threads that it starts. Requires that no
// other thread exists yet, because a signal goes to any thread that does not block it.
void keep_signals_for_server();

// Calls `handle` with the number of each signal that was kept, on the thread of the loop, while it lives.
class SignalWatch final : public host::Readiness {
 public:
  SignalWatch(host::EventLoop& loop, std::function<void(int)> handle);
  ~SignalWatch() override;

  void on_ready(bool readable, bool writable, bool broken) override;

 private:
  host::EventLoop& loop_;
  std::function<void(int)> handle_;
  int descriptor_ = -1;
};

}  // namespace tangram::serve

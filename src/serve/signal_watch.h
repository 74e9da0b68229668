// The signals that a server obeys, as something to wait for in its loop.
#pragma once

#include <functional>

#include "host/event_loop.h"

namespace tangram::serve {

// Keeps SIGTERM, SIGINT and SIGHUP for Server::run, in this thread and those that it starts. To be called before there
// is any other thread, because a signal goes to whoever does not block it.
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

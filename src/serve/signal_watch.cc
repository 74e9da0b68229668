// Signals as readable events. A signal handler may call almost nothing; with signalfd the loop reads signals like any
// other input, and ordinary code handles them.

#include "serve/signal_watch.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"

namespace tangram::serve {
namespace {

// SIGTERM and SIGINT ask the server to stop, SIGHUP asks it to reload.
sigset_t server_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  return set;
}

}  // namespace

// signalfd delivers only signals that are blocked. Threads inherit the mask of the thread that starts them.
void keep_signals_for_server() {
  const sigset_t set = server_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

SignalWatch::SignalWatch(host::EventLoop& loop, std::function<void(int)> handle)
    : loop_(loop), handle_(std::move(handle)) {
  const sigset_t set = server_signals();
  descriptor_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  TANGRAM_CHECK(descriptor_ >= 0, "the process may open one more descriptor");
  loop_.add(descriptor_, host::Interest::read, this);
}

SignalWatch::~SignalWatch() {
  loop_.remove(descriptor_, this);
  close(descriptor_);
}

// Several signals can be pending. The descriptor does not block, so the loop ends when all are read.
void SignalWatch::on_ready(bool, bool, bool) {
  signalfd_siginfo info;
  while (read(descriptor_, &info, sizeof info) == sizeof info) handle_(static_cast<int>(info.ssi_signo));
}

}  // namespace tangram::serve

#include "serve/signal_watch.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <vector>

namespace tangram::serve {
namespace {

// Restores the mask of this thread, so that the other tests of the program can still be interrupted.
class MaskGuard {
 public:
  MaskGuard() { pthread_sigmask(SIG_SETMASK, nullptr, &before_); }
  ~MaskGuard() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// The signals wait while they are blocked; one turn of the loop delivers all three. Equal signals that wait are one.
TEST(SignalWatch, DeliversTheSignalsThatWereKept) {
  const MaskGuard guard;
  keep_signals_for_server();
  host::EventLoop loop;
  const host::LiveClock clock;
  std::vector<int> seen;
  const SignalWatch watch(loop, [&](int number) { seen.push_back(number); });
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGHUP}) pthread_kill(pthread_self(), number);
  loop.wait(clock, kTimeNever);
  std::ranges::sort(seen);
  EXPECT_EQ(seen, (std::vector<int>{SIGHUP, SIGINT, SIGTERM}));
}

// After its end the loop has no handler for signals: a wake ends the wait, and nothing is delivered.
TEST(SignalWatch, DeliversNothingAfterItsEnd) {
  const MaskGuard guard;
  keep_signals_for_server();
  host::EventLoop loop;
  const host::LiveClock clock;
  int count = 0;
  {
    const SignalWatch watch(loop, [&](int) { ++count; });
  }
  pthread_kill(pthread_self(), SIGHUP);
  loop.wake();
  loop.wait(clock, kTimeNever);
  EXPECT_EQ(count, 0);
  // The signal still waits. It must be taken before the mask opens, or it would end the program.
  const SignalWatch second(loop, [&](int) { ++count; });
  loop.wait(clock, kTimeNever);
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace tangram::serve

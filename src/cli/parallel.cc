// A pool of threads for one loop.
//
// Threads take the next index from one atomic counter, so long and short pieces balance by themselves. The calling
// thread does no work: it draws the progress bar, which only one thread may do.

#include "cli/parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "host/mutex.h"

namespace tangram::cli {
namespace {

// As often as a progress bar is redrawn at most.
constexpr auto kTick = std::chrono::milliseconds(100);

// One loop over `count` pieces. Used once: the counter is not reset.
class Crew {
 public:
  Crew(std::size_t count, const std::function<void(std::size_t)>& work) : count_(count), work_(work) {}

  // Returns when all threads are joined. Rethrows the first exception of a piece.
  void run(const std::function<void()>& tick) {
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    running_ = std::min(count_, cores);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < running_; ++i) threads.emplace_back([this] { take_pieces(); });
    {
      const host::MutexLock lock(mutex_);
      while (!wait_a_tick()) {
        // Without the lock during the tick, which may take a while to draw, threads that finish need not wait.
        mutex_.unlock();
        if (tick) tick();
        mutex_.lock();
      }
    }
    for (auto& thread : threads) thread.join();
    const host::MutexLock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // Waits until all threads are done or a tick has passed. True if all are done.
  bool wait_a_tick() REQUIRES(mutex_) {
    const auto until = std::chrono::steady_clock::now() + kTick;
    while (left_ != running_ && done_.wait_until(mutex_, until)) continue;
    return left_ == running_;
  }

  // The body of a thread: takes pieces until none is left.
  void take_pieces() {
    for (std::size_t i = next_++; i < count_; i = next_++) {
      try {
        work_(i);
      } catch (...) {
        const host::MutexLock lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        // After a failure no further piece is started; those that run already are finished.
        next_ = count_;
      }
    }
    const host::MutexLock lock(mutex_);
    ++left_;
    done_.notify_one();
  }

  std::size_t count_;
  const std::function<void(std::size_t)>& work_;
  std::atomic<std::size_t> next_ = 0;
  std::size_t running_ = 0;  // Number of threads; fixed before they start.
  host::Mutex mutex_;
  host::CondVar done_;                       // With mutex_: left_ has changed.
  std::size_t left_ GUARDED_BY(mutex_) = 0;  // Threads that found nothing more to do.
  std::exception_ptr failure_ GUARDED_BY(mutex_);
};

}  // namespace

void run_all(std::size_t count, const std::function<void(std::size_t)>& work, const std::function<void()>& tick) {
  Crew(count, work).run(tick);
}

}  // namespace tangram::cli

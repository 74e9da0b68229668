#include "cli/parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tangram::cli {
namespace {

constexpr auto kTick = std::chrono::milliseconds(100);

class Crew {
 public:
  Crew(std::size_t count, const std::function<void(std::size_t)>& work) : count_(count), work_(work) {}

  void run(const std::function<void()>& tick) {
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    running_ = std::min(count_, cores);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < running_; ++i) threads.emplace_back([this] { take_pieces(); });
    {
      std::unique_lock lock(mutex_);
      while (!done_.wait_for(lock, kTick, [this] { return left_ == running_; })) {
        lock.unlock();
        if (tick) tick();
        lock.lock();
      }
    }
    for (auto& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void take_pieces() {
    for (std::size_t i = next_++; i < count_; i = next_++) {
      try {
        work_(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        next_ = count_;
      }
    }
    const std::lock_guard lock(mutex_);
    ++left_;
    done_.notify_one();
  }

  std::size_t count_;
  const std::function<void(std::size_t)>& work_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::condition_variable done_;
  std::size_t running_ = 0;
  std::size_t left_ = 0;  // Threads that found nothing more to do.
  std::exception_ptr failure_;
};

}  // namespace

void run_all(std::size_t count, const std::function<void(std::size_t)>& work, const std::function<void()>& tick) {
  Crew(count, work).run(tick);
}

}  // namespace tangram::cli

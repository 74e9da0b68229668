// std::mutex and its lock, annotated so that Clang checks which code holds which mutex. They cost as much as the
// standard ones.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/thread_annotations.h"

namespace tangram::host {

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  // For CondVar alone: locks taken here are not checked.
  std::mutex& native() { return mutex_; }

 private:
  std::mutex mutex_;
};

// Holds a mutex while it lives.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits return for no reason now and then, so callers wait in a loop: `while (!ready_) changed_.wait(mutex_);`. A
// predicate would be a lambda, whose body Clang checks as if the mutex were not held.
class CondVar {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock lock(mutex.native(), std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False if the time was reached.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point until) REQUIRES(mutex) {
    std::unique_lock lock(mutex.native(), std::adopt_lock);
    const bool woken = condition_.wait_until(lock, until) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace tangram::host

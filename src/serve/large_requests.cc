#include "serve/large_requests.h"

#include <utility>

#include "host/prompt_thread.h"

namespace tangram::serve {
namespace {

// How far the thread gives way: a ninth of the weight of the other threads.
constexpr int kNiceOfLargeRequests = 10;

}  // namespace

void LargeRequests::run(std::function<void()> work) {
  const host::MutexLock lock(mutex_);
  if (stopping_) return;
  queue_.push_back(std::move(work));
  if (!thread_.joinable()) thread_ = std::thread([this] { this->work(); });
  changed_.notify_all();
}

void LargeRequests::stop() {
  std::thread ending;
  {
    const host::MutexLock lock(mutex_);
    stopping_ = true;
    queue_.clear();
    ending = std::move(thread_);
    changed_.notify_all();
  }
  if (ending.joinable()) ending.join();
}

void LargeRequests::work() {
  host::give_way(kNiceOfLargeRequests);
  while (true) {
    std::function<void()> next;
    {
      const host::MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) changed_.wait(mutex_);
      if (stopping_) return;
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    next();
  }
}

}  // namespace tangram::serve

// The epoll loop of one thread.
//
// Descriptors are level-triggered: a handler that leaves bytes unread is told again by the next wait(), so a lost edge
// cannot stall a connection. The pointer in each epoll event is the handler, or null for the eventfd of wake().

#include "host/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/check.h"

namespace tangram::host {
namespace {

// Events delivered in one wait(). The limit is small because the owner continues only after all of them, so the first
// request waits for the last: with 256, the p99 of the gateway's added latency was three times as long in bursts
// (bench/macro/added_latency), and throughput was no higher.
constexpr int kEventsMax = 32;

std::int64_t monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

std::uint32_t events_of(Interest interest) {
  const auto bits = static_cast<unsigned>(interest);
  return ((bits & 1) != 0 ? std::uint32_t{EPOLLIN} | EPOLLRDHUP : 0u) |
         ((bits & 2) != 0 ? std::uint32_t{EPOLLOUT} : 0u);
}

// Shared by wait_exactly(), which fills it, and wait(), which reads it. A handler must therefore not call wait().
std::array<epoll_event, kEventsMax>& event_buffer() {
  thread_local std::array<epoll_event, kEventsMax> buffer;
  return buffer;
}

}  // namespace

LiveClock::LiveClock() : begin_ns_(monotonic_ns()) {}

TimePoint LiveClock::now() const { return TimePoint(Duration(monotonic_ns() - begin_ns_)); }

EventLoop::EventLoop() : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  TANGRAM_CHECK(epoll_.open() && wake_.open(), "the process may open two more descriptors");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
}

void EventLoop::add(int descriptor, Interest interest, Readiness* handler) {
  epoll_event event{};
  event.events = events_of(interest);
  event.data.ptr = handler;
  TANGRAM_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0, "a descriptor is watched once");
}

void EventLoop::change(int descriptor, Interest interest, Readiness* handler) {
  epoll_event event{};
  event.events = events_of(interest);
  event.data.ptr = handler;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event);
}

void EventLoop::remove(int descriptor, Readiness* handler) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  // The kernel may have reported an event for this handler already. The list keeps wait() from calling a handler that
  // its owner has destroyed.
  if (delivering_) removed_.push_back(handler);
}

void EventLoop::wake() {
  // write(2) may be called from a signal handler. A full counter fails with EAGAIN, and then a wake-up is pending
  // anyway.
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_.get(), &one, sizeof one);
}

void EventLoop::drain_wakes() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = read(wake_.get(), &count, sizeof count);
}

int EventLoop::wait_exactly(Duration longest) {
  auto& events = event_buffer();
  // epoll_pwait2 (Linux 5.11) takes nanoseconds. A deadline that is rounded to milliseconds would end a batch late.
  if (exact_) {
    timespec limit{};
    limit.tv_sec = longest.count() / 1'000'000'000;
    limit.tv_nsec = longest.count() % 1'000'000'000;
    const int count =
        epoll_pwait2(epoll_.get(), events.data(), kEventsMax, longest == Duration::max() ? nullptr : &limit, nullptr);
    if (count >= 0 || errno != ENOSYS) return count;
    // An older kernel says ENOSYS once; the milliseconds below serve from then on.
    exact_ = false;
  }
  // Rounded up: rounded down, the last part of a millisecond would be spent spinning with a timeout of zero. The hour
  // keeps the count within an int; waking early is harmless.
  const auto milliseconds =
      std::chrono::ceil<std::chrono::milliseconds>(std::min<Duration>(longest, std::chrono::hours(1)));
  return epoll_wait(epoll_.get(), events.data(), kEventsMax, static_cast<int>(milliseconds.count()));
}

int EventLoop::wait(const LiveClock& clock, TimePoint until) {
  Duration longest = Duration::max();
  if (until != kTimeNever) longest = std::max(Duration::zero(), until - clock.now());
  const int count = wait_exactly(longest);
  delivering_ = true;
  const auto& events = event_buffer();
  // A signal makes `count` negative; the loop then delivers nothing and the owner looks at the time again.
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    auto* handler = static_cast<Readiness*>(event.data.ptr);
    if (handler == nullptr) {
      drain_wakes();
      continue;
    }
    if (!removed_.empty() && std::ranges::find(removed_, handler) != removed_.end()) continue;
    const std::uint32_t bits = event.events;
    handler->on_ready((bits & (std::uint32_t{EPOLLIN} | EPOLLRDHUP)) != 0, (bits & EPOLLOUT) != 0,
                      (bits & (std::uint32_t{EPOLLERR} | EPOLLHUP)) != 0);
  }
  delivering_ = false;
  removed_.clear();
  return std::max(count, 0);
}

}  // namespace tangram::host

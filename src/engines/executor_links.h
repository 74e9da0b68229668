// What executors with a connection of their own have in common: links to worker processes and to remote servers.
//
// A link asks again and again for what it lost, with pauses that grow, and is driven by one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/time.h"
#include "host/event_loop.h"
#include "host/log.h"

namespace tangram::engines {

// What a link needs of its process. All of it outlives the link.
struct LinkContext {
  host::EventLoop& loop;
  const host::LiveClock& clock;
  host::LogWriter& log;
};

// The pause before another attempt: none at first, then `min`, doubled with every attempt in vain up to `max`.
inline Duration pause_before_attempt(int attempts_in_vain, Duration min, Duration max) {
  if (attempts_in_vain <= 0) return Duration::zero();
  constexpr int kDoublingsMax = 20;  // A million times the first pause; one more could overflow.
  return std::min(min * (std::int64_t{1} << std::min(attempts_in_vain - 1, kDoublingsMax)), max);
}

// The links that are alive, in the order in which they were made. A link has `work(TimePoint)`, which does what is due,
// and `next_due()`. Links add and remove themselves, and never while the list works.
template <typename Link>
class LinkList {
 public:
  LinkList() = default;
  ~LinkList() { TANGRAM_CHECK(links_.empty(), "executors go before those who made them"); }
  LinkList(const LinkList&) = delete;
  LinkList& operator=(const LinkList&) = delete;

  void add(Link* link) { links_.push_back(link); }
  void remove(Link* link) { std::erase(links_, link); }

  template <typename Function>
  void for_each(Function&& function) const {
    for (Link* link : links_) function(*link);
  }
  void work(TimePoint now) const {
    for (Link* link : links_) link->work(now);
  }
  // When work() is due again if nothing happens; kTimeNever where nothing is.
  TimePoint next_due() const {
    TimePoint due = kTimeNever;
    for (const Link* link : links_) due = std::min(due, link->next_due());
    return due;
  }

 private:
  std::vector<Link*> links_;
};

}  // namespace tangram::engines

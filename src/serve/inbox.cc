#include "serve/inbox.h"

#include "base/check.h"

namespace tangram::serve {

void Inbox::post(Posted call, bool wake) {
  bool first = false;
  {
    const host::MutexLock lock(mutex_);
    first = posted_.calls.empty() && posted_.reports.empty();
    posted_.calls.push_back(call);
  }
  if (first && wake && waker_) waker_();
}

void Inbox::wake_for_posted() {
  bool waiting = false;
  {
    const host::MutexLock lock(mutex_);
    waiting = !posted_.calls.empty();
  }
  if (waiting && waker_) waker_();
}

void Inbox::report(Report report) {
  {
    const host::MutexLock lock(mutex_);
    posted_.reports.push_back(std::move(report));
  }
  if (waker_) waker_();
}

void Inbox::on_done(SliceId slice, BatchId batch, std::string failure) {
  const WorldEventKind kind = failure.empty() ? WorldEventKind::done : WorldEventKind::failed;
  report({kind, slice, batch, std::move(failure)});
}

void Inbox::on_lost(SliceId slice, std::string reason) { report({WorldEventKind::lost, slice, {}, std::move(reason)}); }

void Inbox::on_restarted(SliceId slice, bool ok) {
  report({ok ? WorldEventKind::restarted : WorldEventKind::not_restarted, slice, {}, {}});
}

// Followed by on_done(), which wakes the world for both.
void Inbox::on_turned_away(SliceId slice, Duration retry_after) {
  const host::MutexLock lock(mutex_);
  posted_.rejected_upstream.push_back({slice, retry_after});
}

void Inbox::take(Contents& taken) {
  TANGRAM_CHECK(taken.calls.empty() && taken.reports.empty() && taken.rejected_upstream.empty(),
                "what was taken is handled");
  const host::MutexLock lock(mutex_);
  taken.calls.swap(posted_.calls);
  taken.reports.swap(posted_.reports);
  taken.rejected_upstream.swap(posted_.rejected_upstream);
}

}  // namespace tangram::serve

// The only place where threads meet the world.
//
// Posting is a push under a short lock. The waker is called outside the lock, and only when needed: a wake-up writes to
// an eventfd, which costs more than the post. The first post after a take() wakes; the world takes everything together,
// so later posts need no wake-up of their own.

#include "serve/inbox.h"

#include "base/check.h"

namespace tangram::serve {

void Inbox::post(Posted call, bool wake) {
  bool first = false;
  {
    const host::MutexLock lock(mutex_);
    // If something was posted already, its post has woken the world or its poster will.
    first = posted_.calls.empty() && posted_.reports.empty();
    posted_.calls.push_back(call);
  }
  if (first && wake && waker_) waker_();
}

// For threads that post several calls without waking: one wake-up for all of them.
void Inbox::wake_for_posted() {
  bool waiting = false;
  {
    const host::MutexLock lock(mutex_);
    waiting = !posted_.calls.empty();
  }
  if (waiting && waker_) waker_();
}

// Always wakes. Calls that were posted without waking can be in the inbox, so "first" would not tell.
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

void Inbox::on_stopped(SliceId slice, BatchId batch) { report({WorldEventKind::stopped, slice, batch, {}}); }

void Inbox::on_lost(SliceId slice, std::string reason) { report({WorldEventKind::lost, slice, {}, std::move(reason)}); }

void Inbox::on_restarted(SliceId slice, bool ok) {
  report({ok ? WorldEventKind::restarted : WorldEventKind::not_restarted, slice, {}, {}});
}

void Inbox::on_cut(DeviceId device, bool ok) {
  report({ok ? WorldEventKind::cut : WorldEventKind::not_cut, SliceId(device.value()), {}, {}});
}

void Inbox::on_returned(SliceId slice) { report({WorldEventKind::returned, slice, {}, {}}); }

// Does not wake: on_done() or on_lost() of the same batch follows at once and wakes the world for both.
void Inbox::on_rejected_upstream(SliceId slice, Duration retry_after) {
  const host::MutexLock lock(mutex_);
  posted_.rejected_upstream.push_back({slice, retry_after});
}

void Inbox::on_ran(SliceId slice, Duration ran) {
  const host::MutexLock lock(mutex_);
  posted_.ran.push_back({slice, ran});
}

void Inbox::take(Contents& taken) {
  // Swapping gives the emptied vectors of `taken` to the next posts, so the steady state allocates nothing.
  TANGRAM_CHECK(taken.calls.empty() && taken.reports.empty() && taken.rejected_upstream.empty(),
                "what was taken is handled");
  const host::MutexLock lock(mutex_);
  taken.calls.swap(posted_.calls);
  taken.reports.swap(posted_.reports);
  taken.rejected_upstream.swap(posted_.rejected_upstream);
  taken.ran.swap(posted_.ran);
}

}  // namespace tangram::serve

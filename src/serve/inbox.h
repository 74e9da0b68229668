// Messages from other threads to the LiveWorld: new calls, and reports about batches and slices.
//
// Any thread may post. The thread of the world takes everything at once, so that it locks once per step and not once
// per call.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engines/executor.h"
#include "host/mutex.h"
#include "serve/call.h"
#include "serve/event_queue.h"

namespace tangram::serve {

class Inbox final : public engines::ExecutorEvents {
 public:
  // The caller of this call has gone.
  struct Abandoned {
    Call* call = nullptr;
    bool operator==(const Abandoned&) const = default;
  };
  using Posted = std::variant<Call*, ControlCall*, Abandoned>;
  // An executor's report about its slice.
  struct Report {
    WorldEventKind kind = WorldEventKind::done;
    SliceId slice;  // Of `cut` and `not_cut`: the number of the device.
    BatchId batch;
    std::string reason;  // Of a failure.
  };
  // A worker or remote server had no room for a batch, and may have some after `retry_after`.
  struct RejectedUpstream {
    SliceId slice;
    Duration retry_after;
  };
  // How long a batch took where it ran.
  struct Ran {
    SliceId slice;
    Duration ran;
  };
  // Everything that was posted since the last take(), in the order of posting.
  struct Contents {
    std::vector<Posted> calls;
    std::vector<Report> reports;
    std::vector<RejectedUpstream> rejected_upstream;
    std::vector<Ran> ran;
  };

  // `waker` is called when something was posted and the world may be asleep. Set before the first post.
  void set_waker(std::function<void()> waker) { waker_ = std::move(waker); }
  // Wakes the world for the first of several posts. A thread that posts without waking either calls wake_for_posted()
  // afterwards or is the one that calls step() next.
  void post(Posted call, bool wake = true) EXCLUDES(mutex_);
  void wake_for_posted() EXCLUDES(mutex_);
  // The caller of a call that was posted has gone: the world drops it, and answers its owner as ever, soon where it
  // can. The call may have been answered meanwhile, or be on its way back; then nothing happens. By the thread that
  // posts the owner's calls, so that the message comes before the next use of the same memory, which must stay valid
  // until the world has read the message (pools that free nothing do).
  void abandon(Call* call, bool wake = true) { post(Abandoned{call}, wake); }

  void on_done(SliceId slice, BatchId batch, std::string failure) override;
  void on_stopped(SliceId slice, BatchId batch) override;
  void on_lost(SliceId slice, std::string reason) override;
  void on_restarted(SliceId slice, bool ok) override;
  void on_rejected_upstream(SliceId slice, Duration retry_after) override EXCLUDES(mutex_);
  void on_ran(SliceId slice, Duration ran) override EXCLUDES(mutex_);

  // A device is cut, or could not be.
  void on_cut(DeviceId device, bool ok);
  // Nothing of training runs on a recalled slice any more.
  void on_returned(SliceId slice);

  // Moves everything to `taken`, which is empty, and keeps its memory for the next posts. The thread of the world.
  void take(Contents& taken) EXCLUDES(mutex_);

 private:
  // Adds the report and wakes the world, always.
  void report(Report report) EXCLUDES(mutex_);

  std::function<void()> waker_;
  host::Mutex mutex_;
  Contents posted_ GUARDED_BY(mutex_);
};

}  // namespace tangram::serve

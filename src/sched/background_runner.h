// Background requests on their way: they arrive, wait, run on slices that are idle, and are rejected when their time is
// over. What may run, and for how long, is decided by Background (sched/background.h).
//
// Owns State::background, which exists since the first background request: until then none of this costs anything.
#pragma once

#include <optional>
#include <vector>

#include "sched/background.h"
#include "sched/batch_runner.h"
#include "sched/policy.h"
#include "sched/resolver.h"
#include "sched/state.h"

namespace tangram::sched {

class BackgroundRunner {
 public:
  // All outlive the runner. `merge`: requests may share a batch.
  BackgroundRunner(State& state, const View& view, Resolver& resolver, BatchRunner& runner, bool merge)
      : state_(state), view_(view), resolver_(resolver), runner_(runner), merge_(merge) {}

  // Queues the request, or rejects it if no slice takes it, a limit is reached or the World is ending. Its deadline
  // does not matter: it may wait until then.
  // Returns the number of its record; kNoRecord if it was rejected.
  RecordNumber arrive(const Request& request);
  // Queues a record that is in no queue, and runs it at once if a slice is idle and may.
  void place(Waiting* waiting);
  // Starts a background batch on the slice if that is idle, nothing is bound to it, and the slack allows one.
  void run_on(SliceId slice);
  // Takes a request out of its queue. It counts as waiting no more.
  void take_out(Waiting* waiting) {
    state_.background->erase(waiting);
    --state_.waiting_count;
  }
  // Nothing is queued or admitted from now on.
  void on_ending();
  bool ending() const { return ending_; }

  // When on_due should be called next; kTimeNever: nothing waits.
  TimePoint due() const { return state_.background == nullptr ? kTimeNever : state_.background->due(); }
  // Time has passed: rejects requests whose deadline is over and asks idle slices again.
  void on_due();
  // Slices have gone: rejects the requests that no slice will ever take.
  void reject_untakable();
  // All requests, out of their queues and still counted as waiting, for a change of plan.
  std::vector<Waiting*> take_all();

 private:
  // Moves the corrections of all run times on the pool a step back towards the plan's.
  void doubt_corrections(PoolId pool);
  // The requests have left their queues and are counted as waiting.
  void reject_all(const std::vector<Waiting*>& rejected, RejectReason reason);

  State& state_;
  const View& view_;
  Resolver& resolver_;
  BatchRunner& runner_;
  bool merge_;
  bool ending_ = false;
};

}  // namespace tangram::sched

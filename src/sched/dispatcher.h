// Which request waits where, and which batch starts next.
//
// Asks the policy, checks its choices and carries them out. An online request waits in the lane of its bucket, which
// every slice that takes it may serve, or in the queue of one slice. All functions leave the invariants of State intact
// but for `waiting_count` where they say so; none calls back into the scheduler.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "sched/background_runner.h"
#include "sched/batch_runner.h"
#include "sched/policy.h"
#include "sched/resolver.h"
#include "sched/state.h"

namespace tangram::sched {

class Dispatcher {
 public:
  // The references outlive the dispatcher. `merge`: requests may share a batch.
  Dispatcher(std::unique_ptr<Policy> policy, State& state, const View& view, Resolver& resolver, BatchRunner& runner,
             BackgroundRunner& background, bool merge);

  // The policy binds requests to slices.
  bool binds() const { return policy_binds_; }
  // Whether requests that wait would give way to this one, which would be too late otherwise.
  bool may_displace(const Request& request, std::uint32_t bucket) const {
    return policy_->displace(view_, request, bucket).count > 0;
  }

  // ---- Requests ----

  // Queues an admitted online request that is in no queue. It counts as waiting from now on, and starts at once if a
  // slice is idle and the policy says so.
  void place(Waiting* waiting);
  // The same for any request that was admitted under another plan or for a slice that is gone: it is rejected if no
  // slice will ever take it.
  void place_or_reject(Waiting* waiting);
  // Takes an online request out of its lane or the queue of its slice. It counts as waiting no more, and is in no
  // queue. Returns the lane that it left, which is to be served again: other requests may have waited behind it.
  std::optional<LaneId> take_out(Waiting* waiting);
  // Asks the policy about a lane, after others have left it.
  void serve(LaneId lane) { serve_lane(lane); }
  // All online requests, out of their queues and still counted as waiting; those of lanes first. Holds are forgotten.
  // State::adopt must follow.
  std::vector<Waiting*> take_all();

  // ---- Slices ----

  // Gives an idle slice its next batch: its own queue first, then what the policy says, then the background.
  void feed(SliceId slice);
  // Starts the next batch of the queue of an idle slice. Requests that would make others late give way to them first.
  void start_bound(SliceId slice);
  // Places the queue of a slice that does not serve any more elsewhere.
  void abandon(SliceId slice);
  // Slices have come: requests in lanes may be bound now.
  void bind_waiting();
  // Slices have gone, for a while or for good: requests that no slice will ever take are rejected, and the policy is
  // asked again about the rest, which may have waited for just those slices.
  void reconsider_waiting();

  // True if the policy rejects requests that are worth nothing any more.
  bool gives_up() const { return policy_gives_up_; }

  // ---- Time ----

  // When one of the two functions below has something to do.
  TimePoint next_due() {
    if (state_.waiting_count == 0) expire_at_ = kTimeNever;
    return holds_.empty() ? expire_at_ : std::min(expire_at_, next_hold());
  }
  // Asks the policy again about the lanes that it held until now.
  void serve_due_lanes();
  // Rejects the requests whose deadline has passed, where the policy gives up. Cheap unless the first deadline is over.
  void reject_expired();

 private:
  struct Hold {
    TimePoint when;
    LaneId lane;
    bool operator>(const Hold& other) const { return when != other.when ? when > other.when : lane > other.lane; }
  };

  // Into the lane of its bucket, which is then served. The request is counted and in no queue.
  void place_shared(Waiting* waiting);
  // Into the queue of the slice that the policy chose. The request is counted and in no queue.
  void place_bound(Waiting* waiting, const Binding& binding);
  // Takes the requests that give way out of the queue of their slice, and adds them to `displaced` for the caller to
  // place.
  void unbind(const Displacement& way, std::vector<Waiting*>* displaced);
  // Starts a late request on an idle slice that has a queue of its own, if the policy says so; drops those past saving.
  // `shortened` gets the lanes that requests left.
  bool start_late(SliceId slice, std::vector<LaneId>* shortened);
  // Starts the next batch of the queue of an idle slice, once those that would make others late have left it.
  void start_own(SliceId slice);
  // Asks the policy until it has nothing more to do with this lane.
  void serve_lane(LaneId lane);
  // Carries out one choice. Returns false if there is nothing more to ask for.
  bool apply(const Choice& choice, LaneId asked_for);
  // Starts the batch of a choice from lanes.
  void start(const Choice& choice);
  // Gives the first batch that waits for one slice to another, which is idle.
  void steal(const Choice& choice);
  // The policy is asked again about the lane at `until`, whatever it said before.
  void hold(LaneId lane, TimePoint until);
  // The first hold that still counts. Forgets those before it.
  TimePoint next_hold();
  // Calls `visit(LaneId, Waiting*)` for all requests in lanes, in the order of their arrival. The visit may take the
  // request away.
  template <typename Visit>
  void each_waiting(Visit&& visit);

  std::unique_ptr<Policy> policy_;
  bool policy_binds_;
  bool policy_gives_up_;
  bool merge_;
  State& state_;
  const View& view_;
  Resolver& resolver_;
  BatchRunner& runner_;
  BackgroundRunner& background_;
  std::priority_queue<Hold, std::vector<Hold>, std::greater<>> holds_;
  TimePoint expire_at_ =
      kTimeNever;  // Not after the first last deadline of any waiting request, where the policy gives up.
};

}  // namespace tangram::sched

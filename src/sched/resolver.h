// How requests end: the only caller of World::resolve.
//
// Every request that arrives is resolved exactly once, and its record, if it had one, goes back to the store. Each end
// of an online request also teaches the scheduler: the share of requests that a service lost, the slack that is left
// for background work, and whether a correction of the predictions went too far.
//
// The World is called last but for the record's return, and must not call the scheduler from resolve.
#pragma once

#include "sched/background.h"
#include "sched/policy.h"
#include "sched/state.h"
#include "sched/world.h"

namespace tangram::sched {

class Resolver {
 public:
  // All outlive the resolver.
  Resolver(World& world, State& state, const View& view) : world_(world), state_(state), view_(view) {}

  // Rejects a request that was not admitted. `earliest`: when an answer could have been ready.
  void reject(const Request& request, RejectReason reason, TimePoint earliest = kTimeNever) {
    if (!is_background(request)) note_rejected(request, reason);
    world_.resolve(request, {OutcomeKind::rejected, reason, earliest}, nullptr);
  }
  // Rejects a request that is in no queue and no batch, and gives its record back.
  void reject(Waiting* waiting, RejectReason reason, TimePoint earliest = kTimeNever) {
    reject(waiting->request, reason, earliest);
    state_.store.give_back(waiting);
  }
  // The same, as too late, with the time at which it could have been answered now.
  void reject_late(Waiting* waiting);
  // A request ran, or was about to, and may not run again. It is in no queue and no batch.
  void fail(Waiting* waiting);
  // The caller of a request has gone. It is in no queue and no batch. Teaches the scheduler nothing: it says neither
  // that the service is short of slices nor that it is not.
  void abandon(Waiting* waiting) {
    world_.resolve(waiting->request, {OutcomeKind::abandoned, RejectReason::none, kTimeNever}, nullptr);
    state_.store.give_back(waiting);
  }
  // The members of `batch`, which has ended well, are answered: served by their deadline, or late. Those whose callers
  // have gone are abandoned.
  void answer(const Batch& batch) {
    for (const Request* member : batch.members) {
      if (record_of(member)->abandoned) [[unlikely]] {
        abandon(record_of(member));
        continue;
      }
      const auto kind = state_.now <= member->deadline ? OutcomeKind::served : OutcomeKind::late;
      if (!is_background(*member)) {
        state_.services[member->queue.index()].note_resolved(kind == OutcomeKind::late);
        if (kind == OutcomeKind::late && !is_beyond_share(*member)) {
          state_.services[member->queue.index()].share.note_loss();
        }
        if (state_.background != nullptr) {
          state_.background->on_online_end(member->queue, member->deadline - state_.now, state_.now);
        }
      }
      world_.resolve(*member, {kind, RejectReason::none, kTimeNever}, &batch);
      state_.store.give_back(record_of(member));
    }
  }

 private:
  // Learns from the rejection of an online request. Changes no queue and no slice.
  void note_rejected(const Request& request, RejectReason reason);

  World& world_;
  State& state_;
  const View& view_;
};

}  // namespace tangram::sched

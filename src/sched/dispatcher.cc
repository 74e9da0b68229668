// Carries out what the policy decides: it moves requests between lanes, queues of slices and batches.
//
// Invariant: a queued request is in exactly one lane or one slice's queue, and counts once in waiting_count. A function
// that takes a request out of a queue places, launches or resolves it, or hands it to its caller to place.
#include "sched/dispatcher.h"

#include <algorithm>

#include "base/check.h"
#include "sched/admission.h"

namespace tangram::sched {
namespace {

// Deadlines of queued requests are scanned at most this often. A rejection may be late by as much.
constexpr Duration kExpireEvery = std::chrono::milliseconds(1);

}  // namespace

Dispatcher::Dispatcher(std::unique_ptr<Policy> policy, State& state, const View& view, Resolver& resolver,
                       BatchRunner& runner, BackgroundRunner& background, bool merge)
    : policy_(std::move(policy)),
      policy_binds_(policy_->binds()),
      policy_gives_up_(policy_->gives_up()),
      merge_(merge),
      state_(state),
      view_(view),
      resolver_(resolver),
      runner_(runner),
      background_(background) {}

// ---- Requests ----

void Dispatcher::place(Waiting* waiting) {
  ++state_.waiting_count;
  if (policy_gives_up_) expire_at_ = std::min(expire_at_, view_.last_deadline(waiting->request));
  if (!policy_binds_) {
    place_shared(waiting);
    return;
  }
  auto binding = policy_->bind(view_, *waiting);
  std::vector<Waiting*> displaced;
  // Requests that matter less give up their places, and the policy is asked again. They are placed after the request
  // they made way for, so that they cannot take the place back.
  if (!binding) {
    const Displacement way = policy_->displace(view_, waiting->request, waiting->bucket);
    if (way.count > 0) {
      unbind(way, &displaced);
      binding = policy_->bind(view_, *waiting);
    }
  }
  if (binding) {
    place_bound(waiting, *binding);
  } else {
    place_shared(waiting);
  }
  // In a lane rather than bound: no further displacement can follow, so the chain ends here.
  for (Waiting* victim : displaced) place_shared(victim);
}

void Dispatcher::unbind(const Displacement& way, std::vector<Waiting*>* displaced) {
  for (std::uint32_t i = 0; i < way.count; ++i) {
    displaced->push_back(record_of(&way.victims[i]->request));
    state_.slices.unbind(way.slice, displaced->back(), view_.run_times(view_.slice(way.slice).place.pool));
  }
}

void Dispatcher::place_bound(Waiting* waiting, const Binding& binding) {
  const SliceState& slice = view_.slice(binding.slice);
  const PoolId pool = slice.place.pool;
  const PoolService* entry = view_.pool_service(pool, waiting->request.queue);
  TANGRAM_CHECK(serves(slice) && entry != nullptr && entry->takes(waiting->bucket, waiting->request.samples),
                "a policy binds a request to a slice that serves it");
  // A request that failed a batch before runs alone, so that it cannot fail others again.
  const bool joins = binding.joins && !waiting->alone;
  // On an idle slice it starts at once, through the queue: relieve and next_bound have their say as for any batch.
  if (slice.status == SliceStatus::idle) {
    state_.slices.append(binding.slice, waiting, joins);
    start_bound(binding.slice);
    return;
  }
  state_.slices.bind(binding.slice, waiting, joins, state_.now, view_.run_time(pool, *entry));
  // The next request of the bucket looks at this slice first for an open batch.
  const OpenBatch& tail = slice.bound.tail();
  if (joins) {
    TANGRAM_CHECK(entry->takes(tail.bucket, tail.samples), "an open batch stays within the plan's limit");
  } else {
    state_.lanes[state_.lane_of(tail.service, tail.bucket, 1).index()].open_slice = binding.slice;
  }
}

void Dispatcher::place_shared(Waiting* waiting) {
  const LaneId lane = state_.lane_of(waiting->request.queue, waiting->bucket, waiting->request.samples);
  state_.lane_insert(lane, waiting);
  serve_lane(lane);
}

void Dispatcher::place_or_reject(Waiting* waiting) {
  const RejectReason never = why_never(view_, waiting->request, waiting->bucket);
  if (never != RejectReason::none) return resolver_.reject(waiting, never);
  is_background(waiting->request) ? background_.place(waiting) : place(waiting);
}

std::optional<LaneId> Dispatcher::take_out(Waiting* waiting) {
  --state_.waiting_count;
  if (waiting->place == RecordPlace::lane) {
    const LaneId lane(waiting->holder);
    state_.lane_erase(lane, waiting);
    return lane;
  }
  TANGRAM_CHECK(waiting->place == RecordPlace::bound, "an online request that waits is in a lane or bound");
  const SliceId slice(waiting->holder);
  state_.slices.unbind(slice, waiting, view_.run_times(view_.slice(slice).place.pool));
  return std::nullopt;
}

std::vector<Waiting*> Dispatcher::take_all() {
  std::vector<Waiting*> all;
  for (std::uint32_t l = 0; l < state_.lanes.size(); ++l) {
    while (Waiting* first = state_.lanes[l].queue.front()) {
      state_.lane_erase(LaneId(l), first);
      all.push_back(first);
    }
  }
  const std::vector<Waiting*> bound = state_.slices.clear_all_bound();
  all.insert(all.end(), bound.begin(), bound.end());
  // Lanes are numbered per plan, so old holds would point at other lanes.
  holds_ = {};
  return all;
}

// ---- Choices of the policy ----

// A start or a drop changes what the policy sees, so it is asked again after each. It ends because every answer but
// `wait` takes a request out of the lane. Late requests may run on the slices that are idle still.
void Dispatcher::serve_lane(LaneId lane) {
  bool demoted = false;
  while (!state_.lanes[lane.index()].queue.empty()) {
    const Choice choice = policy_->on_waiting(view_, lane);
    demoted |= choice.kind == Choice::Kind::demote;
    if (!apply(choice, lane)) break;
  }
  if (demoted) serve_lane(state_.late_lane_of(state_.lanes[lane.index()].service));
}

bool Dispatcher::apply(const Choice& choice, LaneId asked_for) {
  switch (choice.kind) {
    case Choice::Kind::wait: hold(asked_for, choice.until); return false;
    case Choice::Kind::start: start(choice); return true;
    case Choice::Kind::steal: steal(choice); return true;
    case Choice::Kind::demote: {
      const LaneId from = choice.parts[0].lane;
      Waiting* waiting = state_.lanes[from.index()].queue.front();
      TANGRAM_CHECK(!state_.lanes[from.index()].late, "a request is demoted once");
      state_.lane_erase(from, waiting);
      state_.lane_insert(state_.late_lane_of(waiting->request.queue), waiting);
      return true;
    }
    case Choice::Kind::drop: {
      const LaneId from = choice.parts[0].lane;
      Waiting* waiting = state_.lanes[from.index()].queue.front();
      state_.lane_erase(from, waiting);
      --state_.waiting_count;
      resolver_.reject_late(waiting);
      return true;
    }
  }
  return false;
}

// Functions marked inline are called from one or two places, for every request: the call would cost more than the code.
inline void Dispatcher::start(const Choice& choice) {
  TANGRAM_CHECK(choice.part_count > 0, "a batch has members");
  const ServiceId service = state_.lanes[choice.parts[0].lane.index()].service;
  BatchDraft batch = state_.slices.draft(choice.slice);
  for (std::uint32_t i = 0; i < choice.part_count; ++i) {
    const auto& part = choice.parts[i];
    Lane& lane = state_.lanes[part.lane.index()];
    TANGRAM_CHECK(lane.service == service && part.skip + part.take <= lane.queue.count(),
                  "a part is there to be taken");
    // A request that must run alone stays in its lane unless it is the first: the batch starts without it.
    Waiting* next = lane.queue.front();
    for (std::uint32_t n = 0; n < part.skip; ++n) next = next->next;
    for (std::uint32_t n = 0; n < part.take; ++n) {
      // Read `next` before the request leaves the lane, which clears its links.
      Waiting* waiting = next;
      next = next->next;
      if (!batch.may_add(*waiting)) continue;
      state_.lane_erase(part.lane, waiting);
      batch.add(waiting);
    }
  }
  runner_.launch(choice.slice, batch);
}

void Dispatcher::steal(const Choice& choice) {
  TANGRAM_CHECK(choice.from != choice.slice, "a slice steals from another");
  BatchDraft batch = state_.slices.draft(choice.slice);
  state_.slices.take_first_batch(choice.from, batch);
  runner_.launch(choice.slice, batch);
}

// Old holds of the lane stay in the heap and are void: next_hold and serve_due_lanes compare them with the lane.
inline void Dispatcher::hold(LaneId lane, TimePoint until) {
  Lane& held = state_.lanes[lane.index()];
  if (until == held.hold) return;
  held.hold = until;
  if (until != kTimeNever) holds_.push({until, lane});
}

// ---- Slices ----

void Dispatcher::feed(SliceId id) {
  const SliceState& slice = view_.slice(id);
  if (!slice.bound.empty()) {
    start_bound(id);
    return;
  }
  while (slice.status == SliceStatus::idle) {
    const Choice choice = policy_->on_idle(view_, id);
    const bool waits = choice.kind == Choice::Kind::wait;
    const LaneId lane = choice.part_count > 0 ? choice.parts[0].lane : LaneId();
    if (waits && choice.part_count > 0) hold(lane, choice.until);
    if (waits || !apply(choice, lane)) break;
    // Behind the first late request may be one that another idle slice takes, or this one if the first was dropped.
    const bool shortens = choice.kind == Choice::Kind::start || choice.kind == Choice::Kind::drop;
    if (shortens && state_.lanes[lane.index()].late) serve_lane(lane);
  }
  if (state_.background != nullptr) background_.run_on(id);
}

// It ends because every drop takes a request out of a late lane.
inline bool Dispatcher::start_late(SliceId id, std::vector<LaneId>* shortened) {
  Choice choice = policy_->before_own(view_, id);
  while (choice.kind == Choice::Kind::drop) {
    shortened->push_back(choice.parts[0].lane);
    apply(choice, choice.parts[0].lane);
    choice = policy_->before_own(view_, id);
  }
  if (choice.kind != Choice::Kind::start) return false;
  shortened->push_back(choice.parts[0].lane);
  start(choice);
  return true;
}

void Dispatcher::start_bound(SliceId id) {
  std::vector<LaneId> shortened;
  if (!start_late(id, &shortened)) start_own(id);
  // Late requests of all buckets wait in one lane: behind the first may be one that another idle slice takes. Nobody
  // else would ask for it.
  for (const LaneId lane : shortened) serve_lane(lane);
}

void Dispatcher::start_own(SliceId id) {
  const SliceState& slice = view_.slice(id);
  std::vector<Waiting*> displaced;
  // Run times are never exact, so a slice may have fallen behind its promises. Requests that cannot all be in time any
  // more are thinned out until the rest can, or the queue is empty.
  while (!slice.bound.empty()) {
    const Displacement way = policy_->relieve(view_, id);
    if (way.count == 0) break;
    unbind(way, &displaced);
  }
  if (!slice.bound.empty()) {
    BatchDraft batch = state_.slices.draft(id);
    state_.slices.take_own(id, merge_ ? policy_->next_bound(view_, id) : 1, batch);
    runner_.launch(id, batch);
  }
  for (Waiting* waiting : displaced) place_shared(waiting);
}

void Dispatcher::abandon(SliceId id) {
  for (Waiting* waiting : state_.slices.clear_bound(id)) {
    --state_.waiting_count;
    place_or_reject(waiting);
  }
}

// The list is made before the first visit, because visits move requests. In the order of arrival rather than of lanes,
// so that no bucket is served first because of its number.
template <typename Visit>
void Dispatcher::each_waiting(Visit&& visit) {
  std::vector<std::pair<Waiting*, LaneId>> waiting;
  for (std::uint32_t l = 0; l < state_.lanes.size(); ++l) {
    for (Waiting* w = state_.lanes[l].queue.front(); w != nullptr; w = w->next) waiting.emplace_back(w, LaneId(l));
  }
  std::ranges::sort(waiting, {}, [](const auto& entry) { return entry.first->request.id; });
  for (const auto& [w, lane] : waiting) visit(lane, w);
}

void Dispatcher::bind_waiting() {
  each_waiting([&](LaneId lane, Waiting* waiting) {
    if (state_.lanes[lane.index()].late) return;
    const auto binding = policy_->bind(view_, *waiting);
    if (!binding) return;
    state_.lane_erase(lane, waiting);
    place_bound(waiting, *binding);
  });
}

void Dispatcher::reconsider_waiting() {
  each_waiting([&](LaneId lane, Waiting* waiting) {
    const RejectReason never = why_never(view_, waiting->request, waiting->bucket);
    if (never == RejectReason::none) return;
    state_.lane_erase(lane, waiting);
    --state_.waiting_count;
    resolver_.reject(waiting, never);
  });
  // All lanes, not only those of services that lost slices: requests of others may have waited for theirs.
  for (std::uint32_t l = 0; l < state_.lanes.size(); ++l) serve_lane(LaneId(l));
  background_.reject_untakable();
}

// ---- Time ----

TimePoint Dispatcher::next_hold() {
  while (!holds_.empty()) {
    const Hold& next = holds_.top();
    // A hold is void once the policy has set another for its lane, or the lane is empty or gone with its plan.
    if (next.lane.index() < state_.lanes.size() && state_.lanes[next.lane.index()].hold == next.when) return next.when;
    holds_.pop();
  }
  return kTimeNever;
}

void Dispatcher::serve_due_lanes() {
  while (!holds_.empty() && holds_.top().when <= state_.now) {
    const Hold due = holds_.top();
    holds_.pop();
    Lane& lane = state_.lanes[due.lane.index()];
    if (lane.hold != due.when) continue;  // Replaced since.
    lane.hold = kTimeNever;
    serve_lane(due.lane);
  }
}

// Policies are asked when a slice becomes idle, which may take long while a slice hangs. Requests that wait for it
// must not wait until it is declared lost: they are rejected at their last deadline. Usually the request with the first
// deadline runs by then, and this scan only finds the next one.
void Dispatcher::reject_expired() {
  if (state_.now < expire_at_) return;
  std::vector<std::pair<Waiting*, LaneId>> in_lanes;
  std::vector<std::pair<Waiting*, SliceId>> in_slices;
  TimePoint next = kTimeNever;
  // First all that expired are collected, then they are taken out: resolving walks no queue that it changes.
  const auto look = [&](Waiting* first, auto place, auto& expired) {
    for (Waiting* waiting = first; waiting != nullptr; waiting = waiting->next) {
      const TimePoint last = view_.last_deadline(waiting->request);
      if (last <= state_.now) {
        expired.emplace_back(waiting, place);
      } else {
        next = std::min(next, last);
      }
    }
  };
  for (std::uint32_t s = 0; s < state_.services.size(); ++s) {
    view_.each_occupied_lane(ServiceId(s),
                             [&](LaneId id, const Lane& lane) { look(lane.queue.front(), id, in_lanes); });
  }
  for (const PoolState& pool : state_.slices.pools()) {
    for (std::uint32_t i = pool.backed_up.first; i != SliceState::kNone; i = state_.slices[i].list_next) {
      look(state_.slices[i].bound.front(), SliceId(i), in_slices);
    }
  }
  expire_at_ = next == kTimeNever ? next : std::max(next, state_.now + kExpireEvery);
  for (const auto& [waiting, slice] : in_slices) {
    state_.slices.unbind(slice, waiting, view_.run_times(view_.slice(slice).place.pool));
    --state_.waiting_count;
    resolver_.reject_late(waiting);
  }
  for (const auto& [waiting, lane] : in_lanes) {
    state_.lane_erase(lane, waiting);
    --state_.waiting_count;
    resolver_.reject_late(waiting);
  }
  // The requests behind them may be ones that an idle slice takes.
  for (const auto& [waiting, lane] : in_lanes) serve_lane(lane);
}

}  // namespace tangram::sched

// The scheduler's events. Each public event reads the clock (begin), changes the State through the parts, and asks
// the World for the next wake (finish). The invariants of State hold between events, not within them.
#include "sched/scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "sched/admission.h"

namespace tangram::sched {
namespace {

// Requires a known policy: configurations are validated before they come here.
std::unique_ptr<Policy> make_policy(const SchedulerConfig& config) {
  const PolicyInfo* info = find_policy(config.policy);
  TANGRAM_CHECK(info != nullptr, "the policy is known");
  return info->make(config.policy_config);
}

}  // namespace

Scheduler::Scheduler(World& world, Deployment deployment, SchedulerConfig config)
    : world_(world),
      config_(std::move(config)),
      state_(std::move(deployment), config_.requests_max, config_.correction_weight),
      view_(state_),
      resolver_(world_, state_, view_),
      runner_(world_, state_, view_, resolver_),
      background_(state_, view_, resolver_, runner_, config_.policy_config.merge),
      dispatcher_(make_policy(config_), state_, view_, resolver_, runner_, background_, config_.policy_config.merge) {}

// ---- Requests ----

void Scheduler::on_arrival(const Request& arrived) {
  begin();
  Request request = arrived;
  request.queue = view_.queue_of(request.service);
  std::uint32_t bucket = 0;
  if (is_background(request)) {
    background_.arrive(request);
  } else if (admit(request, &bucket)) {
    dispatcher_.place(state_.store.take(request, bucket));
  }
  finish();
}

Duration Scheduler::longest_run(const DeployedService& service) const {
  std::int64_t longest_ns = 0;
  for (const PoolId pool : service.pools) {
    for (const PoolService& entry : view_.pool_data(pool).services) {
      if (&view_.service(entry.service) != &service) continue;
      for (std::uint32_t bucket = 0; bucket < entry.batch_max.size(); ++bucket) {
        if (entry.batch_max[bucket] > 0) longest_ns = std::max(longest_ns, entry.latency.mean_ns(bucket, 1));
      }
    }
  }
  return Duration(longest_ns);
}

// Called once for each arrival: the call would cost more than the code.
inline bool Scheduler::admit(const Request& request, std::uint32_t* bucket) {
  const DeployedService& service = view_.service(request.queue);
  *bucket = service.bucket_of(request.size);
  // From the cheapest reason to the dearest. A request for a service that no slice serves is told so even if it is too
  // large: the client may come back when the slices do.
  if (service.pools.empty() || state_.services[request.queue.index()].slices == 0) {
    resolver_.reject(request, RejectReason::no_capacity);
    return false;
  }
  if (!service.takes(*bucket, request.samples)) {
    resolver_.reject(request, RejectReason::too_large);
    return false;
  }
  if (state_.store.full()) {
    resolver_.reject(request, RejectReason::queue_full);
    return false;
  }
  // Before anything that depends on how busy the slices are: a neighbour's excess must not become their backlog.
  if (const double limit = view_.service(request.service).rate_max_per_s; limit > 0) [[unlikely]] {
    if (!state_.services[request.service.index()].rate.take(state_.now, limit, longest_run(service))) {
      resolver_.reject(request, RejectReason::over_rate);
      return false;
    }
  }
  // Reject now rather than run late. A batch that misses its first deadline also delays every request behind it, so it
  // costs more answers than it gives.
  if (config_.admission && may_end_in_time(view_, request, *bucket, dispatcher_.binds())) return true;
  const RejectReason never = why_never(view_, request, *bucket);
  if (never != RejectReason::none) {
    resolver_.reject(request, never);
    return false;
  }
  if (!config_.admission || dispatcher_.may_displace(request, *bucket)) return true;
  const TimePoint earliest = earliest_finish(view_, request, *bucket);
  // kTimeNever: all slices that take it are away for now.
  resolver_.reject(request, earliest == kTimeNever ? RejectReason::no_capacity : RejectReason::too_late, earliest);
  return false;
}

bool Scheduler::could_be_in_time(const Request& asked) const {
  Request request = asked;
  request.queue = view_.queue_of(request.service);
  return sched::could_be_in_time(view_, request);
}

void Scheduler::on_batch_done(const BatchDone& done) {
  begin();
  const SliceState& slice = view_.slice(done.slice);
  // A batch that was given up may still be answered by a worker that was slow to die.
  if (slice.status == SliceStatus::busy && slice.batch == done.batch) {
    std::vector<Waiting*> failed;
    if (done.ok) {
      runner_.end(done.slice);
    } else {
      failed = runner_.take_members(done.slice);
      forget_failed_load(done.slice);
    }
    if (slice.retiring) {
      state_.slices.retire(done.slice);
      advance_move();
    } else {
      state_.slices.go_idle(done.slice, state_.now);
      // Its own queue goes before the members that failed: an idle slice has nothing bound to it.
      if (!slice.bound.empty()) dispatcher_.start_bound(done.slice);
    }
    if (!failed.empty() && done.rejected_upstream) {
      for (Waiting* waiting : failed) resolver_.reject(waiting, RejectReason::queue_full);
    } else if (!failed.empty()) {
      run_again(failed, true);  // One member may have been too much for the engine. Alone it fails no other.
    }
    // The failed members may have been placed on this slice meanwhile; then it is busy already.
    if (slice.status == SliceStatus::idle) dispatcher_.feed(done.slice);
  }
  finish();
}

// A batch that fails after it has loaded its model leaves the model unloaded, whichever of the two failed: the World
// does not say.
void Scheduler::forget_failed_load(SliceId id) {
  const SliceState& slice = view_.slice(id);
  if (!slice.batch_cold) return;
  const PoolService* entry = view_.pool_service(slice.place.pool, slice.batch_service);
  if (entry != nullptr) state_.slices.forget_on_demand(id, entry->model.copy);
}

// Places the members of a batch that did not succeed again, or fails those that have no attempt or no time left.
void Scheduler::run_again(const std::vector<Waiting*>& requests, bool alone) {
  for (Waiting* waiting : requests) {
    ++waiting->attempts;
    waiting->alone |= alone;
    if (!may_run_again(*waiting)) {
      resolver_.fail(waiting);
    } else {
      is_background(waiting->request) ? background_.place(waiting) : dispatcher_.place(waiting);
    }
  }
}

bool Scheduler::may_run_again(const Waiting& waiting) const {
  const Request& request = waiting.request;
  // A plan that came into force while the batch ran may have no bucket for it.
  if (waiting.attempts > config_.retries_max || (background_.ending() && is_background(request))) return false;
  if (waiting.bucket >= view_.service(request.queue).edges.size()) return false;
  if (why_never(view_, request, waiting.bucket) != RejectReason::none) return false;
  const TimePoint earliest = earliest_finish(view_, request, waiting.bucket);
  return (earliest == kTimeNever ? state_.now : earliest) <= request.deadline;
}

BackgroundOutlook Scheduler::background_outlook(ServiceId service) const {
  return state_.background == nullptr ? BackgroundOutlook{} : state_.background->outlook(view_, service);
}

void Scheduler::on_ending() {
  begin();
  background_.on_ending();
  finish();
}

// ---- Time ----

// All timers share one wake, and each looks whether it is due: a wake that comes early or for nothing does no harm.
void Scheduler::on_wake() {
  begin();
  // The wake has happened, so finish() must ask for the next one even at the same instant.
  wake_asked_ = kTimeNever;
  dispatcher_.serve_due_lanes();
  if (state_.now >= watch_at_) {
    // A worker that never answers would keep its slice and its requests for ever. One loss may change what is predicted
    // for the next slice, so each is judged when its turn comes.
    watch_at_ = kTimeNever;
    for (std::uint32_t i = 0; i < state_.slices.size(); ++i) {
      if (is_stuck(view_, state_.slices[i], config_.stuck_factor, config_.stuck_min)) on_slice_lost(SliceId(i));
    }
  }
  dispatcher_.reject_expired();
  if (state_.now >= background_.due()) background_.on_due();
  finish();
}

void Scheduler::finish() {
  // Stuck slices are looked for every `stuck_min` while any slice is busy, not by the deadline of each batch: setting
  // and cancelling a timer for each batch would cost more than a look at all slices now and then.
  if (state_.slices.busy_count() > 0 && watch_at_ == kTimeNever) watch_at_ = state_.now + config_.stuck_min;
  const TimePoint when = std::min({watch_at_, dispatcher_.next_due(), background_.due()});
  // Most events do not change the next wake; skipping the call saves the World a timer per event.
  if (when == wake_asked_) return;
  wake_asked_ = when;
  world_.wake_at(when);
}

// ---- Slices ----

void Scheduler::on_slice_lost(SliceId id) {
  begin();
  const SliceStatus before = view_.slice(id).status;
  if (before == SliceStatus::idle || before == SliceStatus::busy) {
    // The slice must count as away before any of its requests is placed, or they would be bound to it again. Members
    // of its batch go first: they have waited longest.
    state_.slices.go_away(id, SliceStatus::restarting);
    state_.count_capacity();
    world_.restart(id);
    if (before == SliceStatus::busy) run_again(runner_.take_members(id), false);
    dispatcher_.abandon(id);
    dispatcher_.reconsider_waiting();
  }
  finish();
}

void Scheduler::on_restarted(SliceId id, bool ok) {
  begin();
  const SliceState& slice = view_.slice(id);
  TANGRAM_CHECK(slice.status == SliceStatus::restarting, "a restart was asked for");
  if (slice.retiring) {
    state_.slices.retire(id);
    advance_move();
  } else if (!ok) {
    world_.restart(id);
  } else {
    state_.slices.join(id, state_.now);
    state_.count_capacity();
    dispatcher_.bind_waiting();
    // A policy that does not bind is asked what the slice should run; so is one that bound nothing to it.
    if (slice.status == SliceStatus::idle) dispatcher_.feed(id);
  }
  finish();
}

std::optional<SliceId> Scheduler::lend_idle(PoolId pool) {
  begin();
  const auto id = view_.idle_slice(pool);
  return id && lend(*id) ? id : std::nullopt;
}

bool Scheduler::lend(SliceId id) {
  begin();
  const SliceState& slice = view_.slice(id);
  // A slice with promises is not lent, and one that leaves must not start a loan.
  if (slice.status != SliceStatus::idle || slice.retiring || !slice.bound.empty()) return false;
  state_.slices.go_away(id, SliceStatus::lent);
  state_.count_capacity();
  world_.lend(id);
  dispatcher_.reconsider_waiting();
  finish();
  return true;
}

void Scheduler::recall(SliceId id) {
  begin();
  if (view_.slice(id).status == SliceStatus::lent) {
    state_.slices.go_away(id, SliceStatus::recalling);
    world_.recall(id);
  }
  finish();
}

void Scheduler::on_returned(SliceId id) {
  begin();
  state_.slices.go_away(id, SliceStatus::restarting);  // It comes back as after a restart: empty and ready.
  on_restarted(id, true);
}

bool Scheduler::on_correction(const CorrectionPlace& place, std::int64_t factor_ppb, std::int64_t spread_ppb) {
  begin();
  const bool known = state_.corrections.on() && state_.corrections.set(place, factor_ppb, spread_ppb);
  finish();
  return known;
}

// ---- Plans ----

// The new plan is in force at once, for admission and queues as well; devices follow. Requests are taken out
// of all queues first, because lanes, buckets and pools are numbered otherwise afterwards.
void Scheduler::on_plan_ready(Deployment next) {
  begin();
  TANGRAM_CHECK(!moving(), "one plan moves at a time");
  MovePlan plan = plan_move(state_.deployment, state_.slices.all(), std::move(next));
  std::vector<Waiting*> waiting = dispatcher_.take_all();
  const std::vector<Waiting*> in_background = background_.take_all();
  waiting.insert(waiting.end(), in_background.begin(), in_background.end());
  translate_running(plan.deployment);
  state_.adopt(std::move(plan.deployment));
  move_.emplace(std::move(plan.steps), config_.devices_cut_max);
  place_again(std::move(waiting));
  advance_move();
  finish();
}

// A running batch keeps its bucket if the new plan has it. Members that run again find theirs by their size.
void Scheduler::translate_running(const Deployment& next) {
  for (std::uint32_t i = 0; i < state_.slices.size(); ++i) {
    const SliceState& slice = state_.slices[i];
    if (slice.status != SliceStatus::busy) continue;
    const auto& before = view_.service(slice.batch_service).edges;
    // The new plan may have its members wait and run with other services.
    const ServiceId queue = queue_of(next, slice.members.front()->service);
    const DeployedService& service = next.services[queue.index()];
    const bool known = slice.batch_bucket < before.size();
    const auto same = known ? std::ranges::find(service.edges, before[slice.batch_bucket]) : service.edges.end();
    state_.slices.rename_batch(SliceId(i), queue, static_cast<std::uint32_t>(same - service.edges.begin()));
    for (const Request* member : slice.members) {
      Waiting* waiting = record_of(member);
      waiting->request.queue = queue_of(next, member->service);
      waiting->bucket = next.services[waiting->request.queue.index()].bucket_of(member->size);
    }
  }
}

// In the order of arrival, as if they had arrived under this plan.
void Scheduler::place_again(std::vector<Waiting*> requests) {
  std::ranges::sort(requests, {}, [](const Waiting* w) { return w->request.id; });
  for (Waiting* waiting : requests) {
    --state_.waiting_count;
    waiting->request.queue = view_.queue_of(waiting->request.service);
    const DeployedService& service = view_.service(waiting->request.queue);
    waiting->bucket = service.bucket_of(waiting->request.size);
    if (service.takes(waiting->bucket, waiting->request.samples)) {
      dispatcher_.place_or_reject(waiting);
    } else {
      resolver_.reject(waiting, RejectReason::too_large);
    }
  }
}

void Scheduler::advance_move() {
  while (move_) {
    switch (move_->next(state_.slices.all())) {
      case Move::Action::drain: drain(move_->step()); break;
      case Move::Action::reshape: world_.reshape(move_->step().device, move_->step().target); break;
      case Move::Action::wait: return;
      case Move::Action::done: move_.reset(); break;
    }
  }
}

void Scheduler::drain(const MoveStep& step) {
  for (const SliceId id : step.leaving) {
    state_.slices.leave(id);
    if (view_.slice(id).status == SliceStatus::lent) {
      state_.slices.go_away(id, SliceStatus::recalling);
      world_.recall(id);
    }
  }
  // All have left before the first queue is placed elsewhere, or it might be bound to one that leaves next.
  state_.count_capacity();
  for (const SliceId id : step.leaving) dispatcher_.abandon(id);
  dispatcher_.reconsider_waiting();
}

void Scheduler::on_reshaped(DeviceId device, bool ok) {
  begin();
  TANGRAM_CHECK(moving(), "a re-cut was asked for");
  const Move::Answer answer = move_->on_reshaped(device, ok, config_.reshapes_max);
  const std::vector<SliceId>& joining = move_->step().joining;
  if (answer == Move::Answer::over) {
    state_.deployment.devices[device.index()].layout = move_->step().target;
    for (const SliceId id : joining) state_.slices.join(id, state_.now);
    state_.count_capacity();
    dispatcher_.bind_waiting();
    for (const SliceId id : joining) {
      if (view_.slice(id).status == SliceStatus::idle) dispatcher_.feed(id);
    }
    move_->finish_step();
  } else if (answer == Move::Answer::give_up) {
    // The slices will not come. Requests that only they would have taken are rejected now instead of at their deadline.
    for (const SliceId id : joining) state_.slices.retire(id);
    state_.count_capacity();
    dispatcher_.reconsider_waiting();
    move_->finish_step();
  }
  advance_move();
  finish();
}

}  // namespace tangram::sched

#include "sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "sched/background.h"

#include <cstddef>

namespace tangram::sched {
namespace {

// The record that holds a request: members of batches are kept as requests, because that is what the World may see.
Waiting* record_of(const Request* request) {
  static_assert(offsetof(Waiting, request) == 0);
  return const_cast<Waiting*>(reinterpret_cast<const Waiting*>(request));
}

bool may_join(const std::vector<const Request*>& members, const Waiting& waiting) {
  return members.empty() || (!waiting.alone && !record_of(members.front())->alone);
}

// False for a batch of a bucket that the plan in force does not have.
bool in_table(const SliceState& slice, const PoolService& entry) {
  return slice.batch_bucket < entry.batch_max.size() && entry.takes(slice.batch_bucket, slice.batch_samples);
}

std::unique_ptr<Policy> make_policy(const SchedulerConfig& config) {
  const PolicyInfo* info = find_policy(config.policy);
  TANGRAM_CHECK(info != nullptr, "the policy is known");
  return info->make(config.policy_config);
}

}  // namespace

Scheduler::Scheduler(World& world, Deployment deployment, SchedulerConfig config)
    : world_(world),
      config_(std::move(config)),
      policy_(make_policy(config_)),
      policy_binds_(policy_->binds()),
      policy_gives_up_(policy_->gives_up()),
      state_(std::move(deployment), config_.requests_max, config_.correction_weight),
      view_(state_) {}

// ---- Arrival and admission -----------------------------------------------------------------------------------------

void Scheduler::on_arrival(const Request& request) {
  begin();
  std::uint32_t bucket = 0;
  if (is_background(request)) {
    arrive_in_background(request);
  } else if (admit(request, &bucket)) {
    place(state_.store.take(request, bucket));
  }
  finish();
}

// Called once for each arrival and, like the other functions here that are marked inline, from one or two places: the
// call would cost more than the code.
inline bool Scheduler::admit(const Request& request, std::uint32_t* bucket) {
  const DeployedService& service = state_.deployment.services[request.service.index()];
  const auto edge = std::ranges::lower_bound(service.edges, request.size);
  if (service.pools.empty() || state_.services[request.service.index()].slices == 0) {
    refuse(request, RejectReason::no_capacity, kTimeNever);
    return false;
  }
  if (edge == service.edges.end() || request.samples > service.samples_max) {
    refuse(request, RejectReason::too_large, kTimeNever);
    return false;
  }
  *bucket = static_cast<std::uint32_t>(edge - service.edges.begin());
  if (state_.store.full()) {
    refuse(request, RejectReason::queue_full, kTimeNever);
    return false;
  }
  // Refuse now rather than run late. A batch that misses its first deadline also delays every request behind it, so
  // it costs more answers than it gives.
  if (config_.admission && may_end_in_time(request, *bucket)) return true;
  const RejectReason never = why_never(request, *bucket);
  if (never != RejectReason::none) {
    refuse(request, never, kTimeNever);
    return false;
  }
  if (!config_.admission || policy_->displace(view_, request, *bucket).count > 0) return true;
  const TimePoint earliest = earliest_finish(request, *bucket);
  // Never: those that take it are all away for now.
  refuse(request, earliest == kTimeNever ? RejectReason::no_capacity : RejectReason::too_late, earliest);
  return false;
}

// Why no slice will ever take the request, or none if one does, now or when it is back.
RejectReason Scheduler::why_never(const Request& request, std::uint32_t bucket) const {
  RejectReason reason = RejectReason::too_large;
  for (const PoolId pool : view_.service(request.service).pools) {
    if (!view_.pool_service(pool, request.service)->takes(bucket, request.samples)) continue;
    if (view_.pool(pool).present > 0) return RejectReason::none;
    reason = RejectReason::no_capacity;
  }
  return reason;
}

void Scheduler::refuse(const Request& request, RejectReason reason, TimePoint earliest) {
  if (!is_background(request)) note_refused(request, reason);
  world_.resolve(request, {OutcomeKind::rejected, reason, earliest}, nullptr);
}

bool Scheduler::could_be_in_time(const Request& request) const {
  const auto& edges = view_.service(request.service).edges;
  const auto bucket = static_cast<std::uint32_t>(std::ranges::lower_bound(edges, request.size) - edges.begin());
  bool taken = false;
  for (const PoolId pool : view_.service(request.service).pools) {
    const PoolService& entry = *view_.pool_service(pool, request.service);
    if (bucket >= edges.size() || !entry.takes(bucket, request.samples)) continue;
    taken = true;
    if (entry.latency.mean_ns(bucket, request.samples) <= (request.deadline - request.arrival).count()) return true;
  }
  return !taken;
}

// A request that no idle slice would end in time either tells nothing about how busy they are, and one that is too
// large nothing at all. One that by the plan's
// own run times an idle slice would, and nothing waits, was refused for what was measured: if that was a hitch, nothing
// will be measured again unless the correction is doubted.
void Scheduler::note_refused(const Request& request, RejectReason reason) {
  const auto& edges = view_.service(request.service).edges;
  const auto bucket = static_cast<std::uint32_t>(std::ranges::lower_bound(edges, request.size) - edges.begin());
  bool fair = reason != RejectReason::too_late && reason != RejectReason::too_large;
  for (const PoolId pool : view_.service(request.service).pools) {
    const PoolService& entry = *view_.pool_service(pool, request.service);
    if (reason != RejectReason::too_late || !entry.takes(bucket, request.samples)) continue;
    const std::int64_t mean = entry.latency.mean_ns(bucket, request.samples);
    const std::int64_t p99 = entry.latency.p99_ns(bucket, request.samples);
    fair |= mean <= (request.deadline - request.arrival).count();
    const bool idle = view_.pool(pool).idle.count > 0 && view_.backlog(request.service) == Duration::zero();
    if (!idle || p99 > (request.deadline - state_.now).count()) continue;
    const std::size_t row =
        state_.first_row[pool.index()] + static_cast<std::size_t>(&entry - view_.pool_data(pool).services.data());
    state_.corrections.doubt(row, bucket, request.samples, static_cast<double>(p99) / static_cast<double>(mean) - 1);
  }
  if (!fair) return;
  state_.services[request.service.index()].note_resolved(true);
  if (background_ != nullptr && reason == RejectReason::too_late)
    background_->on_online_loss(request.service, state_.now);
}

// When the request could be answered if it joined the work that is here: on the slice of each pool that is free first,
// and not before it and what waits have drained through all slices of the service at full batches. It may run in one
// batch with what waits, so the two times are not added. Optimistic, so that nothing is refused that could have been
// served.
TimePoint Scheduler::earliest_finish(const Request& request, std::uint32_t bucket) const {
  TimePoint best = kTimeNever;
  const Duration drain = view_.backlog(request.service) + view_.drain(request, bucket);
  for (const PoolId pool : view_.service(request.service).pools) {
    const PoolState& slices = view_.pool(pool);
    const PoolService& entry = *view_.pool_service(pool, request.service);
    if (slices.by_free_time.empty() || !entry.takes(bucket, request.samples)) continue;
    const Duration wait =
        slices.idle.count > 0 ? Duration::zero() : view_.wait_for(view_.slice(slices.by_free_time.front()));
    const Duration run = view_.mean(pool, entry, bucket, request.samples);
    best = std::min(best, state_.now + wait + std::max(drain, run));
  }
  return best;
}

// Whether that is before its deadline, which mostly the first look tells.
inline bool Scheduler::may_end_in_time(const Request& request, std::uint32_t bucket) const {
  const Duration left = request.deadline - state_.now;
  const Duration drain = view_.backlog(request.service) + view_.drain(request, bucket);
  if (drain > left) return false;
  for (const PoolId pool : view_.service(request.service).pools) {
    const PoolState& slices = view_.pool(pool);
    const PoolService& entry = *view_.pool_service(pool, request.service);
    if (slices.by_free_time.empty() || !entry.takes(bucket, request.samples)) continue;
    const Duration run = view_.mean(pool, entry, bucket, request.samples);
    if (run > left) continue;
    if (slices.idle.count > 0 || has_slice_within(slices, left - std::max(drain, run))) return true;
  }
  return false;
}

// Whether the slice of a pool that is free first can be waited for. While nothing is bound to slices, any that can
// tells as much, and needs no order among them.
bool Scheduler::has_slice_within(const PoolState& slices, Duration wait_max) const {
  if (!policy_binds_ && view_.wait_for(view_.slice(slices.by_free_time.any())) <= wait_max) return true;
  return view_.wait_for(view_.slice(slices.by_free_time.front())) <= wait_max;
}

// ---- Queues
// ----------------------------------------------------------------------------------------------------------

void Scheduler::place(Waiting* waiting) {
  ++waiting_;
  watch_deadline(*waiting);
  if (!policy_binds_) {
    place_shared(waiting);
    return;
  }
  auto binding = policy_->bind(view_, *waiting);
  std::vector<Waiting*> displaced;
  if (!binding && unbind(policy_->displace(view_, waiting->request, waiting->bucket), &displaced))
    binding = policy_->bind(view_, *waiting);
  if (binding) {
    place_bound(waiting, *binding);
  } else {
    place_shared(waiting);
  }
  for (Waiting* victim : displaced) place_shared(victim);
}

// Takes those that give way out of the queue of their slice, if any do. The caller places them.
bool Scheduler::unbind(const Displacement& way, std::vector<Waiting*>* displaced) {
  for (std::uint32_t i = 0; i < way.count; ++i) {
    displaced->push_back(record_of(&way.victims[i]->request));
    unbind(way.slice, displaced->back());
  }
  return way.count > 0;
}

void Scheduler::unbind(SliceId id, Waiting* waiting) {
  SliceState& slice = state_.slices[id.index()];
  const std::int64_t before = slice.bound_work_ns;
  Waiting* first = waiting;
  while (!first->opens_batch) first = first->previous;
  if (first == waiting) first = waiting->next;
  if (waiting->opens_batch && first != nullptr && first->opens_batch) first = nullptr;  // It was a batch of its own.
  slice.bound.erase(waiting);
  slice.bound_work_ns -= waiting->bound_cost_ns;
  waiting->bound_cost_ns = 0;
  waiting->opens_batch = true;
  if (first != nullptr) recount_batch(slice, first);
  slice.tail = {};
  if (Waiting* last = slice.bound.back()) {
    while (!last->opens_batch) last = last->previous;
    recount_batch(slice, last);
  }
  state_.file(id);
  set_free_at(id, slice.free_at - Duration(before - slice.bound_work_ns));
}

// Charges the members of the batch that `first` opens with what each adds to it, and makes it the slice's open batch.
void Scheduler::recount_batch(SliceState& slice, Waiting* first) {
  OpenBatch batch{first->request.service, first->bucket, 0, kTimeNever, first->request.size};
  const PoolService& entry = *view_.pool_service(slice.place.pool, batch.service);
  first->opens_batch = true;
  const auto in_batch = [&](const Waiting* w) { return w == first || (w != nullptr && !w->opens_batch); };
  for (const Waiting* w = first; in_batch(w); w = w->next) batch.bucket = std::max(batch.bucket, w->bucket);
  Duration cost{};
  for (Waiting* w = first; in_batch(w); w = w->next) {
    batch.samples += w->request.samples;
    batch.deadline = std::min(batch.deadline, w->request.deadline);
    const Duration grown = view_.mean(slice.place.pool, entry, batch.bucket, batch.samples);
    slice.bound_work_ns += (grown - cost).count() - w->bound_cost_ns;
    w->bound_cost_ns = (grown - cost).count();
    cost = grown;
  }
  slice.tail = first->alone ? OpenBatch{} : batch;
}

void Scheduler::place_bound(Waiting* waiting, const Binding& binding) {
  SliceState& slice = state_.slices[binding.slice.index()];
  const PoolId pool = slice.place.pool;
  const PoolService* entry = view_.pool_service(pool, waiting->request.service);
  const std::int32_t samples = waiting->request.samples;
  TANGRAM_CHECK(serves(slice) && entry != nullptr && entry->takes(waiting->bucket, samples),
                "a policy binds a request to a slice that serves it");
  const bool joins = binding.joins && !waiting->alone;
  slice.bound.append(waiting);
  waiting->opens_batch = !joins;
  if (slice.status == SliceStatus::idle) {
    start_bound(binding.slice);
    return;
  }
  OpenBatch& tail = slice.tail;
  if (joins) {
    TANGRAM_CHECK(tail.samples > 0 && tail.service == waiting->request.service && waiting->bucket <= tail.bucket,
                  "a request joins a batch of its service that is open");
    const Duration before = view_.mean(pool, *entry, tail.bucket, tail.samples);
    tail.samples += samples;
    tail.deadline = std::min(tail.deadline, waiting->request.deadline);
    TANGRAM_CHECK(entry->takes(tail.bucket, tail.samples), "an open batch stays within the plan's limit");
    waiting->bound_cost_ns = (view_.mean(pool, *entry, tail.bucket, tail.samples) - before).count();
  } else {
    tail = {waiting->request.service, waiting->bucket, samples, waiting->request.deadline, waiting->request.size};
    if (waiting->alone) tail.samples = 0;  // Nobody joins it.
    state_.lanes[state_.lane_of(tail.service, tail.bucket, 1).index()].open_slice = binding.slice;
    waiting->bound_cost_ns = view_.mean(pool, *entry, waiting->bucket, samples).count();
  }
  state_.file(binding.slice);
  slice.bound_work_ns += waiting->bound_cost_ns;
  set_free_at(binding.slice, std::max(slice.free_at, state_.now) + Duration(waiting->bound_cost_ns));
}

void Scheduler::place_shared(Waiting* waiting) {
  const LaneId lane = state_.lane_of(waiting->request.service, waiting->bucket, waiting->request.samples);
  state_.lane_insert(lane, waiting);
  serve_lane(lane);
}

// Asks the policy until it has nothing more to do with this lane.
void Scheduler::serve_lane(LaneId lane) {
  bool demoted = false;
  while (!state_.lanes[lane.index()].queue.empty()) {
    const Choice choice = policy_->on_waiting(view_, lane);
    demoted |= choice.kind == Choice::Kind::demote;
    if (!apply(choice, lane)) break;
  }
  if (demoted) serve_lane(state_.late_lane_of(state_.lanes[lane.index()].service));
}

// Gives an idle slice its next batch.
void Scheduler::feed(SliceId id) {
  const SliceState& slice = state_.slices[id.index()];
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
    // Late requests of all buckets wait in one lane: behind the first may stand one that another idle slice takes.
    if (choice.kind == Choice::Kind::start && state_.lanes[lane.index()].late) serve_lane(lane);
  }
  if (background_ != nullptr) run_in_background(id);
}

// Returns false if there is nothing more to ask for.
bool Scheduler::apply(const Choice& choice, LaneId asked_for) {
  switch (choice.kind) {
    case Choice::Kind::wait: hold(asked_for, choice.until); return false;
    case Choice::Kind::start: start(choice); return true;
    case Choice::Kind::steal: steal(choice); return true;
    case Choice::Kind::demote: {
      const LaneId from = choice.parts[0].lane;
      Waiting* waiting = state_.lanes[from.index()].queue.front();
      TANGRAM_CHECK(!state_.lanes[from.index()].late, "a request is demoted once");
      state_.lane_erase(from, waiting);
      state_.lane_insert(state_.late_lane_of(waiting->request.service), waiting);
      return true;
    }
    case Choice::Kind::drop: {
      const LaneId from = choice.parts[0].lane;
      Waiting* waiting = state_.lanes[from.index()].queue.front();
      state_.lane_erase(from, waiting);
      --waiting_;
      refuse(waiting->request, RejectReason::too_late, earliest_finish(waiting->request, waiting->bucket));
      state_.store.give_back(waiting);
      return true;
    }
  }
  return false;
}

inline void Scheduler::hold(LaneId lane, TimePoint until) {
  Lane& held = state_.lanes[lane.index()];
  if (until == held.hold) return;
  held.hold = until;
  if (until != kTimeNever) holds_.push({until, lane});
}

// ---- Batches
// -----------------------------------------------------------------------------------------------------------

inline void Scheduler::start(const Choice& choice) {
  SliceState& slice = state_.slices[choice.slice.index()];
  TANGRAM_CHECK(slice.status == SliceStatus::idle && !slice.retiring, "a batch starts on an idle slice");
  TANGRAM_CHECK(choice.part_count > 0, "a batch has members");
  const ServiceId service = state_.lanes[choice.parts[0].lane.index()].service;
  slice.members.clear();
  std::int32_t samples = 0;
  std::uint32_t bucket = 0;
  for (std::uint32_t i = 0; i < choice.part_count; ++i) {
    const auto& part = choice.parts[i];
    Lane& lane = state_.lanes[part.lane.index()];
    TANGRAM_CHECK(lane.service == service && part.skip + part.take <= lane.queue.count(),
                  "a part is there to be taken");
    Waiting* next = lane.queue.front();
    for (std::uint32_t n = 0; n < part.skip; ++n) next = next->next;
    for (std::uint32_t n = 0; n < part.take; ++n) {
      Waiting* waiting = next;
      next = next->next;
      if (!may_join(slice.members, *waiting)) continue;
      state_.lane_erase(part.lane, waiting);
      samples += waiting->request.samples;
      bucket = std::max(bucket, waiting->bucket);
      slice.members.push_back(&waiting->request);
    }
  }
  launch(choice.slice, service, bucket, samples);
}

// Gives the first batch that waits for one slice to another that is idle.
void Scheduler::steal(const Choice& choice) {
  SliceState& victim = state_.slices[choice.from.index()];
  TANGRAM_CHECK(choice.from != choice.slice && !victim.bound.empty(), "there is something to steal");
  std::uint32_t take = 1;
  for (const Waiting* next = victim.bound.front()->next; next != nullptr && !next->opens_batch; next = next->next)
    ++take;
  const std::int64_t before = victim.bound_work_ns;
  take_bound(choice.from, take, choice.slice);
  set_free_at(choice.from, victim.free_at - Duration(before - victim.bound_work_ns));
}

void Scheduler::start_bound(SliceId id) {
  const SliceState& slice = state_.slices[id.index()];
  std::vector<Waiting*> displaced;
  while (!slice.bound.empty() && unbind(policy_->relieve(view_, id), &displaced)) continue;
  if (!slice.bound.empty()) {
    const std::uint32_t take = config_.policy_config.merge ? policy_->next_bound(view_, id) : 1;
    take_bound(id, take, id);
  }
  for (Waiting* waiting : displaced) place_shared(waiting);
}

// Moves the first `take` requests that wait for `from` into a batch on `to`, which is idle.
void Scheduler::take_bound(SliceId from, std::uint32_t take, SliceId to) {
  SliceState& source = state_.slices[from.index()];
  SliceState& slice = state_.slices[to.index()];
  TANGRAM_CHECK(take > 0 && take <= source.bound.count(), "a slice takes what is there");
  slice.members.clear();
  std::int32_t samples = 0;
  std::uint32_t bucket = 0;
  const ServiceId service = source.bound.front()->request.service;
  for (std::uint32_t n = 0; n < take && may_join(slice.members, *source.bound.front()); ++n) {
    Waiting* waiting = source.bound.pop_front();
    source.bound_work_ns -= waiting->bound_cost_ns;
    waiting->bound_cost_ns = 0;
    samples += waiting->request.samples;
    bucket = std::max(bucket, waiting->bucket);
    slice.members.push_back(&waiting->request);
  }
  if (source.bound.empty()) {
    source.tail = {};
  } else {
    source.bound.front()->opens_batch = true;
  }
  if (from != to) state_.file(from);
  launch(to, service, bucket, samples);
}

void Scheduler::launch(SliceId id, ServiceId service, std::uint32_t bucket, std::int32_t samples) {
  SliceState& slice = state_.slices[id.index()];
  const PoolId pool = slice.place.pool;
  const PoolService* entry = view_.pool_service(pool, service);
  TANGRAM_CHECK(entry != nullptr && entry->takes(bucket, samples), "a batch stays within the plan's limit");
  if (background_ != nullptr) samples = fill_up(slice, bucket, samples);
  const Duration predicted = view_.mean(pool, *entry, bucket, samples);
  slice.status = SliceStatus::busy;
  state_.file(id);
  slice.started = state_.now;
  slice.batch = BatchId(++batches_);
  slice.batch_service = service;
  slice.batch_bucket = bucket;
  slice.batch_samples = samples;
  set_free_at(id, state_.now + predicted + Duration(slice.bound_work_ns));
  waiting_ -= slice.members.size();
  ++running_;
  std::int64_t padded_size = state_.deployment.services[service.index()].edges[bucket];
  if (state_.deployment.services[service.index()].padding != Padding::bucket) {
    padded_size = 1;
    for (const Request* member : slice.members) padded_size = std::max(padded_size, member->size);
  }
  world_.launch({.id = slice.batch,
                 .slice = id,
                 .service = service,
                 .bucket = bucket,
                 .padded_size = padded_size,
                 .samples = samples,
                 .predicted = predicted,
                 .members = slice.members});
}

void Scheduler::on_batch_done(const BatchDone& done) {
  begin();
  SliceState& slice = state_.slices[done.slice.index()];
  // A batch that was given up may still be answered by a worker that was slow to die.
  if (slice.status == SliceStatus::busy && slice.batch == done.batch) {
    const PoolId pool = slice.place.pool;
    const PoolService& entry = *view_.pool_service(pool, slice.batch_service);
    if (done.ok && state_.corrections.on() && in_table(slice, entry)) {
      const auto table = static_cast<double>(entry.latency.mean_ns(slice.batch_bucket, slice.batch_samples));
      const std::size_t row =
          state_.first_row[pool.index()] + static_cast<std::size_t>(&entry - view_.pool_data(pool).services.data());
      const auto p99 = static_cast<double>(entry.latency.p99_ns(slice.batch_bucket, slice.batch_samples));
      state_.corrections.learn(row, slice.batch_bucket, slice.batch_samples,
                               static_cast<double>((state_.now - slice.started).count()) / table, p99 / table - 1);
    }
    const auto failed = release(done.slice, done.ok);
    if (slice.retiring) {
      retire(done.slice);
    } else {
      slice.status = SliceStatus::idle;
      slice.idle_since = state_.now;
      state_.file(done.slice);
      if (slice.free_at > state_.now && slice.bound.empty()) set_free_at(done.slice, state_.now);
      // What waits for this slice goes first: an idle slice has nothing bound to it.
      if (!slice.bound.empty()) start_bound(done.slice);
    }
    // One member may have been what the engine could not run. Alone it fails nobody else.
    if (!failed.empty()) done.turned_away ? turn_away(failed) : put_back(failed, true);
    if (slice.status == SliceStatus::idle) feed(done.slice);
  }
  finish();
}

// Takes the members off a slice whose batch has ended: resolves them, or returns those that must be put back.
std::vector<const Request*> Scheduler::release(SliceId id, bool ok) {
  SliceState& slice = state_.slices[id.index()];
  --running_;
  std::vector<const Request*> failed;
  if (!ok) failed = slice.members;
  const Batch batch{.id = slice.batch,
                    .slice = id,
                    .service = slice.batch_service,
                    .bucket = slice.batch_bucket,
                    .samples = slice.batch_samples,
                    .took = state_.now - slice.started,
                    .members = slice.members};
  for (const Request* member : ok ? batch.members : std::span<const Request* const>{}) {
    const auto kind = state_.now <= member->deadline ? OutcomeKind::served : OutcomeKind::late;
    if (!is_background(*member)) {
      state_.services[member->service.index()].note_resolved(kind == OutcomeKind::late);
      if (background_ != nullptr) {
        background_->on_online_end(member->service, member->deadline - state_.now, state_.now);
      }
    }
    world_.resolve(*member, {kind, RejectReason::none, kTimeNever}, &batch);
    state_.store.give_back(record_of(member));
  }
  slice.members.clear();
  return failed;
}

// A request whose batch failed runs again if it may and can still be in time. While all slices that take it are away,
// that is until its deadline.
bool Scheduler::may_run_again(const Waiting& waiting) const {
  const Request& request = waiting.request;
  if (waiting.attempts > config_.retries_max || (ending_ && is_background(request))) return false;
  if (waiting.bucket >= view_.service(request.service).edges.size()) return false;
  if (why_never(request, waiting.bucket) != RejectReason::none) return false;
  const TimePoint earliest = earliest_finish(request, waiting.bucket);
  return (earliest == kTimeNever ? state_.now : earliest) <= request.deadline;
}

void Scheduler::put_back(const std::vector<const Request*>& requests, bool alone) {
  for (const Request* request : requests) {
    Waiting* waiting = record_of(request);
    ++waiting->attempts;
    waiting->alone |= alone;
    if (may_run_again(*waiting)) {
      is_background(*request) ? place_in_background(waiting) : place(waiting);
    } else {
      world_.resolve(*request, {OutcomeKind::failed, RejectReason::none, kTimeNever}, nullptr);
      state_.store.give_back(waiting);
    }
  }
}

void Scheduler::turn_away(const std::vector<const Request*>& requests) {
  for (const Request* request : requests) {
    refuse(*request, RejectReason::queue_full, kTimeNever);
    state_.store.give_back(record_of(request));
  }
}

inline void Scheduler::set_free_at(SliceId id, TimePoint when) {
  SliceState& slice = state_.slices[id.index()];
  slice.free_at = when;
  if (serves(slice)) state_.pools[slice.place.pool.index()].by_free_time.update(id, when.time_since_epoch().count());
}

// ---- Time
// ----------------------------------------------------------------------------------------------------------------

void Scheduler::on_wake() {
  begin();
  wake_asked_ = kTimeNever;
  while (!holds_.empty() && holds_.top().when <= state_.now) {
    const Hold due = holds_.top();
    holds_.pop();
    Lane& lane = state_.lanes[due.lane.index()];
    if (lane.hold != due.when) continue;  // Replaced since.
    lane.hold = kTimeNever;
    serve_lane(due.lane);
  }
  if (state_.now >= watch_at_) {
    watch_at_ = kTimeNever;
    watch_for_stuck();
  }
  if (state_.now >= expire_at_) refuse_expired();
  if (background_ != nullptr && state_.now >= background_->due()) look_after_background();
  finish();
}

// Sees to it that the World wakes us when something is due.
void Scheduler::finish() {
  if (running_ > 0 && watch_at_ == kTimeNever) watch_at_ = state_.now + config_.stuck_min;
  if (waiting_ == 0) expire_at_ = kTimeNever;
  TimePoint when = std::min(watch_at_, expire_at_);
  if (background_ != nullptr) when = std::min(when, background_->due());
  while (!holds_.empty()) {
    const Hold& next = holds_.top();
    const bool current = next.lane.index() < state_.lanes.size() && state_.lanes[next.lane.index()].hold == next.when;
    if (current) {
      when = std::min(when, next.when);
      break;
    }
    holds_.pop();
  }
  if (when == wake_asked_) return;
  wake_asked_ = when;
  world_.wake_at(when);
}

// A worker that never answers would keep its slice and its requests for ever.
void Scheduler::watch_for_stuck() {
  for (std::uint32_t i = 0; i < state_.slices.size(); ++i) {
    const SliceState& slice = state_.slices[i];
    if (slice.status != SliceStatus::busy) continue;
    const PoolService& entry = *view_.pool_service(slice.place.pool, slice.batch_service);
    const Duration p99 = in_table(slice, entry)
                             ? view_.p99(slice.place.pool, entry, slice.batch_bucket, slice.batch_samples)
                             : slice.free_at - slice.started;
    const Duration limit(static_cast<std::int64_t>(static_cast<double>(p99.count()) * config_.stuck_factor));
    if (state_.now - slice.started > std::max(limit, config_.stuck_min)) on_slice_lost(SliceId(i));
  }
}

// ---- Deadlines that pass
// ---------------------------------------------------------------------------------------------------

namespace {

// What waits is looked through at most this often. A refusal may be late by as much.
constexpr Duration kExpireEvery = std::chrono::milliseconds(1);

}  // namespace

void Scheduler::watch_deadline(const Waiting& waiting) {
  if (policy_gives_up_) expire_at_ = std::min(expire_at_, waiting.request.deadline);
}

// Policies are asked when a slice falls idle, and one that hangs does not for long: whoever waits for it is told at the
// deadline, not when the slice is given up. Mostly who had the first deadline runs by then, and this only finds the
// next one.
void Scheduler::refuse_expired() {
  std::vector<std::pair<Waiting*, LaneId>> in_lanes;
  std::vector<std::pair<Waiting*, SliceId>> in_slices;
  TimePoint next = kTimeNever;
  const auto look = [&](Waiting* first, auto place, auto& expired) {
    for (Waiting* waiting = first; waiting != nullptr; waiting = waiting->next) {
      if (waiting->request.deadline <= state_.now) {
        expired.emplace_back(waiting, place);
      } else {
        next = std::min(next, waiting->request.deadline);
      }
    }
  };
  for (std::uint32_t s = 0; s < state_.services.size(); ++s) {
    view_.each_occupied_lane(ServiceId(s),
                             [&](LaneId id, const Lane& lane) { look(lane.queue.front(), id, in_lanes); });
  }
  for (const PoolState& pool : state_.pools) {
    for (std::uint32_t i = pool.backed_up.first; i != SliceState::kNone; i = state_.slices[i].list_next) {
      look(state_.slices[i].bound.front(), SliceId(i), in_slices);
    }
  }
  expire_at_ = next == kTimeNever ? next : std::max(next, state_.now + kExpireEvery);
  for (const auto& [waiting, slice] : in_slices) {
    unbind(slice, waiting);
    expire(waiting);
  }
  for (const auto& [waiting, lane] : in_lanes) {
    state_.lane_erase(lane, waiting);
    expire(waiting);
  }
  // Who stood behind them may be what a slice takes.
  for (const auto& [waiting, lane] : in_lanes) serve_lane(lane);
}

void Scheduler::expire(Waiting* waiting) {
  --waiting_;
  refuse(waiting->request, RejectReason::too_late, earliest_finish(waiting->request, waiting->bucket));
  state_.store.give_back(waiting);
}

// ---- Slices that come and go
// -------------------------------------------------------------------------------------------

// Takes a slice out of service. Its own queue is handed to the others by the caller.
void Scheduler::retire(SliceId id) {
  SliceState& slice = state_.slices[id.index()];
  slice.status = SliceStatus::gone;
  if (move_ != nullptr) advance_move();
}

void Scheduler::unbind_all(SliceId id) {
  SliceState& slice = state_.slices[id.index()];
  std::vector<Waiting*> orphans;
  while (!slice.bound.empty()) orphans.push_back(slice.bound.pop_front());
  slice.bound_work_ns = 0;
  slice.tail = {};
  state_.file(id);
  for (Waiting* waiting : orphans) {
    waiting->bound_cost_ns = 0;
    --waiting_;
    place_or_refuse(waiting);
  }
}

// For requests that were admitted under other circumstances.
void Scheduler::place_or_refuse(Waiting* waiting) {
  const RejectReason never = why_never(waiting->request, waiting->bucket);
  if (never == RejectReason::none) {
    is_background(waiting->request) ? place_in_background(waiting) : place(waiting);
    return;
  }
  refuse(waiting->request, never, kTimeNever);
  state_.store.give_back(waiting);
}

// Calls `visit(LaneId, Waiting*)` for all requests in shared queues, in the order of their arrival.
// The visit may take the request away.
template <typename Visit>
void Scheduler::each_waiting(Visit&& visit) {
  std::vector<std::pair<Waiting*, LaneId>> waiting;
  for (std::uint32_t l = 0; l < state_.lanes.size(); ++l) {
    for (Waiting* w = state_.lanes[l].queue.front(); w != nullptr; w = w->next) waiting.emplace_back(w, LaneId(l));
  }
  std::ranges::sort(waiting, {}, [](const auto& entry) { return entry.first->request.id; });
  for (const auto& [w, lane] : waiting) visit(lane, w);
}

// Slices have come. Requests that had to wait in the shared queues because no slice took them may be bound now.
void Scheduler::bind_waiting() {
  each_waiting([&](LaneId lane, Waiting* waiting) {
    if (state_.lanes[lane.index()].late) return;
    const auto binding = policy_->bind(view_, *waiting);
    if (!binding) return;
    state_.lane_erase(lane, waiting);
    place_bound(waiting, *binding);
  });
}

// Slices have gone, for a while or for good. Requests that no other will ever take are refused; the rest may have
// waited for just those slices, so the policy is asked again.
void Scheduler::reconsider_waiting() {
  each_waiting([&](LaneId lane, Waiting* waiting) {
    const RejectReason never = why_never(waiting->request, waiting->bucket);
    if (never == RejectReason::none) return;
    state_.lane_erase(lane, waiting);
    --waiting_;
    refuse(waiting->request, never, kTimeNever);
    state_.store.give_back(waiting);
  });
  for (std::uint32_t l = 0; l < state_.lanes.size(); ++l) serve_lane(LaneId(l));
  if (background_ == nullptr) return;
  refuse_in_background(background_->take_if([&](const Waiting& waiting) {
    return why_never(waiting.request, waiting.bucket) != RejectReason::none;
  }),
                       RejectReason::no_capacity);
}

void Scheduler::on_slice_lost(SliceId id) {
  begin();
  SliceState& slice = state_.slices[id.index()];
  if (slice.status == SliceStatus::idle || slice.status == SliceStatus::busy) {
    const bool was_busy = slice.status == SliceStatus::busy;
    if (!slice.retiring) state_.pools[slice.place.pool.index()].by_free_time.erase(id);
    slice.status = SliceStatus::restarting;
    state_.file(id);
    state_.count_capacity();
    world_.restart(id);
    if (was_busy) put_back(release(id, false), false);
    unbind_all(id);
    reconsider_waiting();
  }
  finish();
}

void Scheduler::on_restarted(SliceId id, bool ok) {
  begin();
  SliceState& slice = state_.slices[id.index()];
  TANGRAM_CHECK(slice.status == SliceStatus::restarting, "a restart was asked for");
  if (slice.retiring) {
    retire(id);
  } else if (!ok) {
    world_.restart(id);
  } else {
    slice.status = SliceStatus::idle;
    slice.free_at = state_.now;
    slice.idle_since = state_.now;
    state_.pools[slice.place.pool.index()].by_free_time.insert(id, state_.now.time_since_epoch().count());
    state_.file(id);
    state_.count_capacity();
    bind_waiting();
    if (slice.status == SliceStatus::idle) feed(id);
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
  SliceState& slice = state_.slices[id.index()];
  if (slice.status != SliceStatus::idle || slice.retiring || !slice.bound.empty()) return false;
  state_.pools[slice.place.pool.index()].by_free_time.erase(id);
  slice.status = SliceStatus::lent;
  state_.file(id);
  state_.count_capacity();
  world_.lend(id);
  reconsider_waiting();
  finish();
  return true;
}

void Scheduler::recall(SliceId id) {
  begin();
  SliceState& slice = state_.slices[id.index()];
  if (slice.status == SliceStatus::lent) {
    slice.status = SliceStatus::recalling;
    world_.recall(id);
  }
  finish();
}

void Scheduler::on_returned(SliceId id) {
  begin();
  SliceState& slice = state_.slices[id.index()];
  TANGRAM_CHECK(slice.status == SliceStatus::recalling, "only a slice that was recalled comes back");
  slice.status = SliceStatus::restarting;  // It comes back as after a restart: empty and ready.
  on_restarted(id, true);
}

// ---- In the background
// ---------------------------------------------------------------------------------------------------

namespace {

// How often idle slices are asked again while something waits in the background. The slack rises with time alone, by a
// two-hundredth of the Slo in this time; and what has waited beyond its deadline is refused within it.
constexpr Duration kBackgroundEvery = std::chrono::milliseconds(100);

}  // namespace

// No test of the time: it may wait until its deadline, and is refused then.
void Scheduler::arrive_in_background(const Request& request) {
  if (background_ == nullptr) background_ = std::make_unique<Background>(state_, config_.policy_config.merge);
  const DeployedService& service = state_.deployment.services[request.service.index()];
  const auto edge = std::ranges::lower_bound(service.edges, request.size);
  const auto bucket = static_cast<std::uint32_t>(edge - service.edges.begin());
  RejectReason reason = RejectReason::too_large;
  if (edge != service.edges.end() && request.samples <= service.samples_max) reason = why_never(request, bucket);
  if (reason == RejectReason::none && (state_.store.full() || background_->full())) reason = RejectReason::queue_full;
  if (reason == RejectReason::none && ending_) reason = RejectReason::no_capacity;
  if (reason != RejectReason::none) return refuse(request, reason, kTimeNever);
  place_in_background(state_.store.take(request, bucket));
}

void Scheduler::place_in_background(Waiting* waiting) {
  ++waiting_;
  background_->insert(waiting);
  if (background_->due() == kTimeNever) background_->set_due(state_.now + kBackgroundEvery);
  for (const PoolId pool : view_.service(waiting->request.service).pools) {
    const auto idle = view_.idle_slice(pool);
    if (idle) return run_in_background(*idle);
  }
}

// Takes rows into a batch that is about to start and has room. Answers the samples that it then holds.
std::int32_t Scheduler::fill_up(SliceState& slice, std::uint32_t bucket, std::int32_t samples) {
  if (!slice.bound.empty()) return samples;  // What waits for the slice was promised when it would be free.
  if (record_of(slice.members.front())->alone) return samples;
  for (Waiting* waiting : background_->fill(view_, slice.place.pool, slice.members, bucket, samples)) {
    background_->erase(waiting);
    samples += waiting->request.samples;
    slice.members.push_back(&waiting->request);
  }
  return samples;
}

void Scheduler::run_in_background(SliceId id) {
  SliceState& slice = state_.slices[id.index()];
  if (slice.status != SliceStatus::idle || slice.retiring || !slice.bound.empty()) return;
  const std::vector<Waiting*> members = background_->choose(view_, id);
  if (members.empty()) return;
  slice.members.clear();
  std::int32_t samples = 0;
  for (Waiting* waiting : members) {
    background_->erase(waiting);
    samples += waiting->request.samples;
    slice.members.push_back(&waiting->request);
  }
  launch(id, members.front()->request.service, members.front()->bucket, samples);
}

// Time has passed: what waited for too long is refused, and idle slices may have room now.
void Scheduler::look_after_background() {
  refuse_in_background(
      background_->take_if([&](const Waiting& waiting) { return waiting.request.deadline <= state_.now; }),
      RejectReason::too_late);
  for (std::uint32_t p = 0; p < state_.pools.size(); ++p) {
    while (const auto idle = view_.idle_slice(PoolId(p))) {
      run_in_background(*idle);
      if (view_.slice(*idle).status == SliceStatus::idle) break;
    }
  }
  background_->set_due(background_->count() > 0 ? state_.now + kBackgroundEvery : kTimeNever);
}

BackgroundOutlook Scheduler::background_outlook(ServiceId service) const {
  return background_ == nullptr ? BackgroundOutlook{} : background_->outlook(view_, service);
}

void Scheduler::on_ending() {
  begin();
  ending_ = true;
  if (background_ != nullptr) {
    refuse_in_background(background_->take_if([](const Waiting&) { return true; }), RejectReason::no_capacity);
  }
  finish();
}

void Scheduler::refuse_in_background(const std::vector<Waiting*>& refused, RejectReason reason) {
  for (Waiting* waiting : refused) {
    --waiting_;
    refuse(waiting->request, reason, kTimeNever);
    state_.store.give_back(waiting);
  }
}

// ---- Moving to another plan
// ------------------------------------------------------------------------------------------------

// Devices are re-cut one after the other, so that the rest keeps serving. A device's turn has three steps: its
// slices that the new plan does not keep are retired as they fall idle, the World re-cuts it, its new slices join.
struct Scheduler::Move {
  struct Turn {
    DeviceId device;
    Layout target;
    std::vector<SliceId> leaving;
    std::vector<SliceId> joining;
    int attempts = 0;
    bool draining = false;
    bool reshaping = false;
  };
  std::vector<Turn> turns;
  std::size_t current = 0;
};

Scheduler::~Scheduler() = default;

namespace {

// `entry` for a service whose buckets have changed: each new bucket is run as the old one that covers it.
PoolService translate(const PoolService& entry, const std::vector<std::int64_t>& old_edges,
                      const std::vector<std::int64_t>& new_edges) {
  PoolService result{entry.service, std::vector<std::int32_t>(new_edges.size(), 0),
                     LatencyTable(new_edges.size(), std::max(1, entry.latency.samples_max()))};
  for (std::size_t b = 0; b < new_edges.size(); ++b) {
    const auto covering = std::ranges::lower_bound(old_edges, new_edges[b]);
    if (covering == old_edges.end()) continue;
    const auto from = static_cast<std::size_t>(covering - old_edges.begin());
    result.batch_max[b] = entry.batch_max[from];
    for (std::int32_t n = 1; n <= entry.batch_max[from]; ++n) {
      result.latency.set(b, n, {Duration(entry.latency.mean_ns(from, n)), Duration(entry.latency.p99_ns(from, n))});
    }
  }
  return result;
}

bool same_work(const Pool& a, const Pool& b) {
  if (a.kind != b.kind || a.services.size() != b.services.size()) return false;
  for (std::size_t i = 0; i < a.services.size(); ++i) {
    if (a.services[i].service != b.services[i].service || a.services[i].batch_max != b.services[i].batch_max)
      return false;
  }
  return true;
}

}  // namespace

void Scheduler::on_plan_ready(Deployment next) {
  begin();
  TANGRAM_CHECK(move_ == nullptr, "one plan moves at a time");
  TANGRAM_CHECK(next.services.size() == state_.deployment.services.size(),
                "a plan is for the services that are served");
  const Deployment old = state_.deployment;

  // The devices of both plans, by name; those of the old keep their ids.
  Deployment joined = next;
  joined.devices = old.devices;
  std::map<std::string, std::uint32_t> device_index;
  for (std::uint32_t d = 0; d < old.devices.size(); ++d) device_index.emplace(old.devices[d].name, d);
  std::vector<Layout> targets(old.devices.size());
  for (auto& device : next.devices) {
    const auto [entry, is_new] =
        device_index.try_emplace(device.name, static_cast<std::uint32_t>(joined.devices.size()));
    if (is_new) {
      joined.devices.push_back(device);
      joined.devices.back().layout = {};
      targets.emplace_back();
    }
    targets[entry->second] = device.layout;
  }

  // Old pools that have slices stay behind the new ones until the next plan, in terms of the new buckets.
  const auto old_pools_begin = static_cast<std::uint32_t>(joined.pools.size());
  std::vector<std::optional<PoolId>> moved_to(old.pools.size());
  for (const auto& slice : state_.slices) {
    if (slice.status == SliceStatus::gone || moved_to[slice.place.pool.index()]) continue;
    moved_to[slice.place.pool.index()] = PoolId(static_cast<std::uint32_t>(joined.pools.size()));
    Pool translated = old.pools[slice.place.pool.index()];
    for (auto& entry : translated.services) {
      entry = translate(entry, old.services[entry.service.index()].edges, next.services[entry.service.index()].edges);
    }
    joined.pools.push_back(std::move(translated));
  }

  // Match the places of the new plan with slices that exist and may stay.
  move_ = std::make_unique<Move>();
  move_->turns.resize(joined.devices.size());
  std::vector<bool> kept(state_.slices.size(), false);
  const std::size_t existing = state_.slices.size();
  for (const auto& place : next.places) {
    const DeviceId device(device_index.at(next.devices[place.device.index()].name));
    bool found = false;
    for (std::size_t i = 0; i < existing && !found; ++i) {
      const SliceState& slice = state_.slices[i];
      if (kept[i] || slice.status == SliceStatus::gone || slice.place.device != device ||
          slice.place.slice != place.slice || slice.place.process != place.process) {
        continue;
      }
      const Pool& before = joined.pools[moved_to[slice.place.pool.index()]->index()];
      if (!same_work(before, next.pools[place.pool.index()])) continue;
      kept[i] = found = true;
      state_.slices[i].place.pool = place.pool;
    }
    if (found) continue;
    SliceState slice;
    slice.place = {device, place.pool, place.slice, place.process};
    slice.status = SliceStatus::planned;
    move_->turns[device.index()].joining.push_back(SliceId(static_cast<std::uint32_t>(state_.slices.size())));
    state_.slices.push_back(std::move(slice));
  }
  for (std::uint32_t i = 0; i < existing; ++i) {
    SliceState& slice = state_.slices[i];
    if (kept[i] || slice.status == SliceStatus::gone) continue;
    slice.place.pool = *moved_to[slice.place.pool.index()];
    move_->turns[slice.place.device.index()].leaving.push_back(SliceId(i));
  }
  for (std::uint32_t d = 0; d < joined.devices.size(); ++d) {
    move_->turns[d].device = DeviceId(d);
    move_->turns[d].target = targets[d];
  }
  // A device is also cut anew for slices that serve nothing and are there to be lent.
  std::erase_if(move_->turns, [&](const Move::Turn& turn) {
    return turn.leaving.empty() && turn.joining.empty() && joined.devices[turn.device.index()].layout == turn.target;
  });
  // Devices that only gain slices go first and those that only lose some last, so that what comes carries what goes.
  std::ranges::stable_sort(move_->turns, {}, [](const Move::Turn& turn) {
    return turn.leaving.empty() ? 0 : turn.joining.empty() ? 2 : 1;
  });

  joined.places.clear();
  for (auto& slice : state_.slices) {
    if (slice.status == SliceStatus::gone) slice.place.pool = PoolId(0);  // Its pool may be gone as well.
    joined.places.push_back(slice.place);
  }
  for (std::uint32_t p = old_pools_begin; p < joined.pools.size(); ++p) {
    for (const auto& entry : joined.pools[p].services) {
      auto& service = joined.services[entry.service.index()];
      service.pools.push_back(PoolId(p));
      service.samples_max =
          std::max(service.samples_max, entry.batch_max.empty() ? 1 : std::ranges::max(entry.batch_max));
    }
  }
  for (auto& service : joined.services) {
    std::ranges::stable_sort(service.pools, [&](PoolId a, PoolId b) {
      return std::pair(joined.pools[a.index()].compute_slices, joined.pools[a.index()].weight) <
             std::pair(joined.pools[b.index()].compute_slices, joined.pools[b.index()].weight);
    });
  }
  rebuild_lanes(std::move(joined));
  advance_move();
  finish();
}

// Puts what waits into the lanes of another deployment.
void Scheduler::rebuild_lanes(Deployment next) {
  std::vector<Waiting*> waiting;
  for (std::uint32_t l = 0; l < state_.lanes.size(); ++l) {
    while (Waiting* first = state_.lanes[l].queue.front()) {
      state_.lane_erase(LaneId(l), first);
      waiting.push_back(first);
    }
  }
  std::vector<Waiting*> bound;
  for (auto& slice : state_.slices) {
    while (Waiting* first = slice.bound.front()) {
      slice.bound.erase(first);
      first->bound_cost_ns = 0;
      bound.push_back(first);
    }
    slice.free_at -= Duration(slice.bound_work_ns);
    slice.bound_work_ns = 0;
    slice.tail = {};
    if (slice.status != SliceStatus::busy) continue;
    // A running batch keeps its bucket if the new plan has it, and members that run again find theirs by their size.
    const auto& before = state_.deployment.services[slice.batch_service.index()].edges;
    const auto& edges = next.services[slice.batch_service.index()].edges;
    const bool known = slice.batch_bucket < before.size();
    const auto same = known ? std::ranges::find(edges, before[slice.batch_bucket]) : edges.end();
    slice.batch_bucket = static_cast<std::uint32_t>(same - edges.begin());
    for (const Request* member : slice.members) {
      record_of(member)->bucket =
          static_cast<std::uint32_t>(std::ranges::lower_bound(edges, member->size) - edges.begin());
    }
  }
  holds_ = {};
  if (background_ != nullptr) {
    const auto patient = background_->take_if([](const Waiting&) { return true; });
    waiting.insert(waiting.end(), patient.begin(), patient.end());
  }
  state_.deployment = std::move(next);
  state_.build();
  if (background_ != nullptr) background_->resize(state_);
  waiting.insert(waiting.end(), bound.begin(), bound.end());
  std::ranges::sort(waiting, {}, [](const Waiting* w) { return w->request.id; });
  for (Waiting* w : waiting) {
    --waiting_;
    const DeployedService& service = state_.deployment.services[w->request.service.index()];
    const auto edge = std::ranges::lower_bound(service.edges, w->request.size);
    if (edge == service.edges.end() || w->request.samples > service.samples_max) {
      refuse(w->request, RejectReason::too_large, kTimeNever);
      state_.store.give_back(w);
      continue;
    }
    w->bucket = static_cast<std::uint32_t>(edge - service.edges.begin());
    place_or_refuse(w);
  }
}

void Scheduler::advance_move() {
  while (move_ != nullptr && move_->current < move_->turns.size()) {
    Move::Turn& turn = move_->turns[move_->current];
    if (turn.reshaping) return;
    if (!turn.draining) {
      turn.draining = true;
      std::vector<SliceId> orphaned;
      for (const SliceId id : turn.leaving) {
        SliceState& slice = state_.slices[id.index()];
        if (serves(slice)) state_.pools[slice.place.pool.index()].by_free_time.erase(id);
        slice.retiring = true;
        if (slice.status == SliceStatus::idle) slice.status = SliceStatus::gone;
        state_.file(id);
        if (slice.status == SliceStatus::lent) {
          slice.status = SliceStatus::recalling;
          world_.recall(id);
        }
        orphaned.push_back(id);
      }
      state_.count_capacity();
      for (const SliceId id : orphaned) unbind_all(id);
      reconsider_waiting();
    }
    for (const SliceId id : turn.leaving) {
      if (state_.slices[id.index()].status != SliceStatus::gone) return;
    }
    turn.reshaping = true;
    ++turn.attempts;
    world_.reshape(turn.device, turn.target);
    return;
  }
  move_.reset();
}

void Scheduler::on_reshaped(DeviceId device, bool ok) {
  begin();
  TANGRAM_CHECK(move_ != nullptr && move_->current < move_->turns.size(), "a re-cut was asked for");
  Move::Turn& turn = move_->turns[move_->current];
  TANGRAM_CHECK(turn.device == device && turn.reshaping, "the answer is to the re-cut that was asked for");
  turn.reshaping = false;
  if (ok || turn.attempts >= config_.reshapes_max) {
    std::vector<SliceId> joined;
    if (ok) {
      state_.deployment.devices[device.index()].layout = turn.target;
      joined = turn.joining;
    }
    for (const SliceId id : ok ? std::vector<SliceId>{} : turn.joining)
      state_.slices[id.index()].status = SliceStatus::gone;
    for (const SliceId id : joined) {
      SliceState& slice = state_.slices[id.index()];
      slice.status = SliceStatus::idle;
      slice.free_at = state_.now;
      slice.idle_since = state_.now;
      state_.pools[slice.place.pool.index()].by_free_time.insert(id, state_.now.time_since_epoch().count());
      state_.file(id);
    }
    state_.count_capacity();
    ++move_->current;
    if (ok) bind_waiting();
    if (!ok) reconsider_waiting();
    for (const SliceId id : joined) {
      if (state_.slices[id.index()].status == SliceStatus::idle) feed(id);
    }
  }
  advance_move();
  finish();
}

}  // namespace tangram::sched

// The order of events is what this file is about. A recording of a live run must replay to the same decisions. That
// holds only if everything reaches the scheduler through step(), one event at a time, completions before arrivals
// before wake-ups, with one value of now_ per step.
//
// World methods (launch, restart, reshape, recall) are called by the scheduler inside its handlers. They never call
// back into it: a result that is known at once becomes an event of now_, which step() delivers after the handler has
// returned. Without this the scheduler would be entered while its state is half changed.

#include "serve/live_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "base/check.h"
#include "sched/admission.h"
#include "serve/access.h"
#include "serve/call_request.h"

namespace tangram::serve {
namespace {

// How long a dead device takes to fail a restart or a cut.
constexpr Duration kDeadAnswer = std::chrono::milliseconds(200);

// True if a slice of the pool is restarting and stays in the plan afterwards.
bool restarts(const sched::State& state, sched::PoolId pool) {
  return std::ranges::any_of(state.slices, [&](const sched::SliceState& slice) {
    return slice.place.pool == pool && slice.status == sched::SliceStatus::restarting && !slice.retiring;
  });
}

}  // namespace

LiveWorld::LiveWorld(sched::Deployment deployment, const std::vector<ServedModel>& models, LiveWorldConfig config)
    : models_(models),
      config_(std::move(config)),
      ledger_(models.size(), deployment.places.size(), config_.wall_start_ms),
      runs_(deployment.places.size(), config_.make_executor, inbox_),
      loaded_(models.size(), true),
      in_flight_by_(models.size(), 0) {
  TANGRAM_CHECK(deployment.services.size() == models.size(), "every service is a model");
  // The call table cannot hold more, so the scheduler must not accept more.
  config_.scheduler.requests_max = std::min(config_.scheduler.requests_max, kCallsMax);
  // LiveWorld derives privately from World, and make_unique cannot do the conversion.
  World& world = *this;
  recorded_ = std::make_unique<sched::RecordedScheduler>(world, std::move(deployment), config_.scheduler,
                                                         config_.recording, sched::kRecordingBytesMax, config_.watcher);
}

LiveWorld::~LiveWorld() = default;

// ---- The loop ----

// Reports become events and are handled before the calls that were posted with them: a slice that has just become free
// can then serve a call of the same step.
void LiveWorld::take_inbox() {
  inbox_.take(posted_);
  for (auto& report : posted_.reports) {
    events_.add(now_, report.kind, report.slice.value(), report.batch.value());
    // The reason must be in place before the event is handled, which passes it on to the members of the batch.
    if (!report.reason.empty()) runs_.at(report.slice).failure = std::move(report.reason);
  }
  for (const auto& [slice, retry_after] : posted_.rejected_upstream) runs_.at(slice).upstream_retry_after = retry_after;
  posted_.reports.clear();
  for (const auto& [slice, ran] : posted_.ran) runs_.at(slice).ran = ran;
  posted_.rejected_upstream.clear();
  posted_.ran.clear();
}

void LiveWorld::open_slices() {
  for (std::uint32_t i = 0; i < runs_.count(); ++i) {
    const SliceId slice(i);
    if (run_of(slice).executor->ready()) continue;
    // The scheduler believes that all slices are ready. Reporting one as lost makes it ask for a restart, which is how
    // an executor loads its models the first time. That start is not a failure, so it is not counted.
    starting_.push_back(slice);
    recorded_->on_slice_lost(slice);
    ledger_.forget_restarts(slice);
  }
}

void LiveWorld::recall(const std::vector<sched::CorrectionMemory>& corrections) {
  for (const auto& remembered : corrections) {
    const auto place = scheduler().state().corrections.find(remembered);
    if (place) recorded_->on_correction(*place, remembered.factor_ppb, remembered.spread_ppb);
  }
}

void LiveWorld::step(TimePoint now) {
  // Time in the world never goes back, whatever the caller says.
  now_ = std::max(now_, now);
  take_inbox();
  std::size_t arrived = 0;
  // One event per turn, always the first kind that is due: each handler can make others due at the same instant. Calls
  // whose callers have gone leave before completions: else a slice that falls idle could begin with one of them.
  while (true) {
    const bool leaves =
        arrived < posted_.calls.size() && std::holds_alternative<Inbox::Abandoned>(posted_.calls[arrived]);
    if (!leaves && events_.next_due() <= now_) {
      handle(events_.take());
      // A completion or restart can be what a held call waits for.
      if (!held_.empty()) release_held();
    } else if (arrived < posted_.calls.size()) {
      std::visit([this](auto posted) { arrive(posted); }, posted_.calls[arrived++]);
    } else if (wake_at_ <= now_) {
      // Cleared first: on_wake() can ask for the next wake-up.
      wake_at_ = kTimeNever;
      recorded_->on_wake();
    } else if (held_.next_due() <= now_) {
      refuse_held();
    } else {
      break;
    }
  }
  // Keeps the memory, which the next take_inbox() swaps back into the inbox.
  posted_.calls.clear();
}

TimePoint LiveWorld::next_due() const { return std::min({wake_at_, held_.next_due(), events_.next_due()}); }

void LiveWorld::handle(const WorldEvent& event) {
  const SliceId slice(event.index);
  switch (event.kind) {
    case WorldEventKind::done: return complete(slice, BatchId(event.batch), BatchEnd::done);
    case WorldEventKind::failed: return complete(slice, BatchId(event.batch), BatchEnd::failed);
    case WorldEventKind::stopped: return complete(slice, BatchId(event.batch), BatchEnd::stopped);
    case WorldEventKind::lost: return lost(slice);
    case WorldEventKind::restarted: return restarted(slice, true);
    case WorldEventKind::not_restarted: return restarted(slice, false);
    case WorldEventKind::cut:
      // It died while it was being cut.
      if (is_dead(DeviceId(event.index))) return recorded_->on_reshaped(DeviceId(event.index), false);
      return start_slices(DeviceId(event.index));
    case WorldEventKind::not_cut: return recorded_->on_reshaped(DeviceId(event.index), false);
    case WorldEventKind::reshaped: return reshaped(DeviceId(event.index));
    case WorldEventKind::returned: return recorded_->on_returned(slice);
  }
}

// ---- Calls ----

// Answers without the scheduler, so without an outcome; on_refused counts the call instead.
void LiveWorld::answer_problem(Call* call, CallStatus status, std::string message) {
  call->status = status;
  call->error = std::move(message);
  if (config_.on_refused) config_.on_refused(*call);
  call->owner->on_answered(call);
}

std::string LiveWorld::why_not_ready(ServiceId service) const {
  if (!loaded_[service.index()]) return "unloaded";
  return scheduler().state().services[service.index()].slices == 0 ? "no slice serves it" : "";
}

void LiveWorld::arrive(ControlCall* call) {
  call->work(*this, *call);
  call->owner->on_controlled(call);
}

void LiveWorld::arrive(Call* call) {
  const ServedModel& model = *call->model;
  // It was removed while the request was read.
  if (model.removed != 0) {
    return answer_problem(call, CallStatus::not_found,
                          fmt::format("Request for unknown model: '{}' is not found", model.name));
  }
  if (!loaded_[model.service.index()]) {
    return answer_problem(call, CallStatus::unavailable, fmt::format("model '{}' is unloaded", model.name));
  }
  if (in_flight() == kCallsMax) return answer_problem(call, CallStatus::refused, "too many requests are in flight");
  call->arrived = now_;
  ++in_flight_by_[model.service.index()];
  if (config_.on_arrived) config_.on_arrived(*call);
  if (must_wait(*call)) {
    hold(call);
  } else {
    admit(call);
  }
}

// A call that is neither held nor in the table is its owner's again, so that nothing of it but its number may be read.
// It cannot be another use of the same memory: that would have been posted after this message.
void LiveWorld::arrive(Inbox::Abandoned gone) {
  Call* call = gone.call;
  if (held_.take(call)) {
    end_held(call, {OutcomeKind::abandoned, RejectReason::none, kTimeNever});
  } else if (calls_.holds(call)) {
    recorded_->on_abandoned(call->record, call->request);
  }
}

// True if no slice serves the request now but one will, while a plan is being put in place or workers restart. The
// scheduler would reject such a request for lack of capacity, although the client only has to wait a moment.
bool LiveWorld::must_wait(const Call& call) const {
  const bool moving = scheduler().moving();
  // The usual case, and the cheap one: no slice is being changed or restarted.
  if (!moving && restarting_ == 0) return false;
  const sched::View view(scheduler().state());
  Request request;
  request.service = call.model->service;
  request.queue = view.queue_of(request.service);
  request.samples = call.samples;
  request.size = call.size;
  const sched::DeployedService& service = view.service(request.queue);
  const std::uint32_t bucket = view.bucket_of(request);
  // A request beyond the last bucket does not fit. It goes to the scheduler, which rejects it with that reason.
  if (bucket == service.edges.size() || sched::serves_now(view, request, bucket)) return false;
  // While a plan moves, a slice that takes the request can still come from a re-cut. Otherwise only a restart helps.
  if (moving) return sched::why_never(view, request, bucket) == RejectReason::none;
  return sched::any_pool_that_takes(view, request, bucket,
                                    [&](sched::PoolId pool) { return restarts(scheduler().state(), pool); });
}

Duration LiveWorld::promise_to(const Call& call) const {
  return scheduler().state().deployment.services[call.model->service.index()].slo.latency;
}

void LiveWorld::hold(Call* call) { held_.add(call, deadline_of(*call, promise_to(*call))); }

// A plan that was applied meanwhile can have changed the Slo, so each deadline is computed again.
void LiveWorld::refuse_held() {
  for (Call* call : held_.take_all()) {
    if (deadline_of(*call, promise_to(*call)) > now_) {
      hold(call);
      continue;
    }
    end_held(call, {OutcomeKind::rejected, RejectReason::no_capacity, kTimeNever});
  }
}

// The scheduler gives a request its number; this one has none.
void LiveWorld::end_held(Call* call, const Outcome& outcome) {
  Request request = request_of(*call, promise_to(*call), call->arrived);
  request.arrival = call->arrived;
  if (config_.on_unseen) config_.on_unseen(request, outcome, now_);
  end(call, request, outcome);
}

// In the order of arrival. A call that still has to wait goes back behind those before it, so the order is kept.
void LiveWorld::release_held() {
  for (Call* call : held_.take_all()) {
    if (must_wait(*call)) {
      hold(call);
    } else {
      admit(call);
    }
  }
}

// The file with the weights may be read anew at any time, by another thread. Telling the scheduler before a request
// that is to be judged by it is early enough, and makes it an event of the recording.
void LiveWorld::note_tenant(const Call& call) {
  const std::int64_t weight_ppm = call.tenant_state->weight_ppm.load(std::memory_order_relaxed);
  if (weights_ppm_.size() <= call.tenant.index()) weights_ppm_.resize(call.tenant.index() + 1, 0);
  if (std::exchange(weights_ppm_[call.tenant.index()], weight_ppm) == weight_ppm) return;
  recorded_->on_tenant(call.tenant, weight_ppm);
}

// The call is added first: adding gives it the id that its request carries, and on_arrival() can resolve it at once.
void LiveWorld::admit(Call* call) {
  if (call->tenant_state != nullptr) note_tenant(*call);
  calls_.add(call);
  const sched::RecordNumber record = recorded_->on_arrival(request_of(*call, promise_to(*call), now_));
  // Otherwise it has been answered and is its owner's again.
  if (record != sched::kNoRecord) call->record = record;
}

// Takes the call out of the table before it is answered: the owner may reuse it from on_answered() on.
void LiveWorld::resolve(const Request& request, const Outcome& outcome, const sched::Batch* batch) {
  Call* call = calls_.take(request.id);
  if (outcome.kind == OutcomeKind::served || outcome.kind == OutcomeKind::late) {
    call->compute = batch->took;
    call->batch_samples = batch->samples;
    call->slice = batch->slice;
    call->bucket = batch->bucket;
  }
  end(call, request, outcome);
}

// The order matters. The call is explained before it is counted and logged, which read its status, and its owner comes
// last because the call is the owner's from then on.
void LiveWorld::end(Call* call, const Request& request, const Outcome& outcome) {
  bool never_in_time = false;
  if (outcome.reason == RejectReason::too_late) {
    // A call that was held arrived before the request that the scheduler knows. "Could it ever have been in time?" is
    // asked of what the client sent, not of what was left of its time.
    Request as_sent = request;
    as_sent.arrival = call->arrived;
    never_in_time = !scheduler().could_be_in_time(as_sent);
  }
  const bool answered = outcome.kind == OutcomeKind::served || outcome.kind == OutcomeKind::late;
  if (!answered) explain_unanswered(*call, request, outcome, never_in_time);
  ledger_.count_ended(*call, outcome, never_in_time, now_);
  --in_flight_by_[call->model->service.index()];
  if (config_.on_resolved) config_.on_resolved(*call, outcome, now_);
  call->owner->on_answered(call);
}

// ---- Batches ----

// A plan can add slices at any time, so counters and executors grow on first use.
SliceRun& LiveWorld::run_of(SliceId slice) {
  ledger_.grow(slice.index() + 1);
  return runs_.open(slice, scheduler().state().slices[slice.index()].place);
}

void LiveWorld::launch(const sched::Batch& batch) {
  SliceRun& run = run_of(batch.slice);
  run.begin(batch, now_);
  for (const Request* member : batch.members) run.add(calls_.at(member->id));
  const sched::View view(scheduler().state());
  const auto* entry = view.pool_service(view.slice(batch.slice).place.pool, batch.service);
  // The mean of the latency model itself. batch.predicted also has the scheduler's correction by measured run times; an
  // emulated executor that ran for that long would feed the correction its own value. It is the fallback where the pool
  // does not list the service.
  const Duration expected =
      entry == nullptr ? batch.predicted : Duration(entry->latency.mean_ns(batch.bucket, batch.samples));
  run.planned = expected;
  // The last instant at which an answer may still count for one of the members.
  TimePoint last = now_;
  for (const Request* member : batch.members) last = std::max(last, view.last_deadline(*member));
  const engines::BatchJob job{.batch = batch.id,
                              .service = batch.service,
                              .samples = batch.samples,
                              .size = batch.padded_size,
                              .expected = expected,
                              .cold = batch.cold,
                              .load = batch.load,
                              .remaining = last - now_};
  for (const ServiceId copy : batch.evicted) run.executor->unload(copy);
  if (batch.cold) ledger_.count_cold_start(run.members.front()->model->service);
  const auto memory = run.executor->prepare(job);
  // Reported as an event, as if the executor had failed: launch() must be answered exactly once, and not from inside
  // itself.
  if (!memory) {
    run.failure = memory.error().message;
    return events_.add(now_, WorldEventKind::failed, batch.slice.value(), batch.id.value());
  }
  run.memory = *memory;
  run.gather_inputs(models_[batch.service.index()], batch.samples);
  // A duration means that the outputs are there already and only time has to pass.
  if (const auto takes = run.executor->start(job)) {
    events_.add(now_ + *takes, WorldEventKind::done, batch.slice.value(), batch.id.value());
  }
}

void LiveWorld::complete(SliceId slice, BatchId batch, BatchEnd how) {
  // Null: the batch was given up by a restart in the meantime, and its members run elsewhere or are answered.
  SliceRun* run = runs_.end(slice, batch);
  if (run == nullptr) return;
  // Of the slice: the way to a node and back is not its run.
  const Duration took = std::min(run->ran.value_or(now_ - run->started), now_ - run->started);
  const ServedModel& model = *run->members.front()->model;
  bool rejected_upstream = false;
  // Outputs are copied out before the scheduler is told: it can launch the next batch into the same memory at once.
  if (how == BatchEnd::done) {
    run->scatter_outputs();
    const std::int32_t samples = run->samples();
    const auto speed = run->cold ? std::nullopt : speeds_.observe(slice, now_, took, run->planned);
    if (speed && config_.on_speed) config_.on_speed(slice, model, speeds_.ratio(slice), *speed);
    if (config_.on_batch && !run->cold) config_.on_batch(slice, model, samples, run->size, took);
    const bool background = run->members.front()->background > 0;
    ledger_.count_batch({slice, model.service, samples, background, took});
  } else if (how == BatchEnd::stopped) {
    ledger_.count_failed_batch(slice, took, false);
    run->fail_members("the batch was stopped");
  } else {
    // A remote server without room is no fault of the slice: it is not counted or logged as one. The scheduler rejects
    // the members instead of running them again.
    rejected_upstream = run->upstream_retry_after > Duration::zero();
    ledger_.count_failed_batch(slice, took, !rejected_upstream);
    if (config_.on_failure && !rejected_upstream) config_.on_failure(slice, model, run->members.size(), run->failure);
    run->fail_members(run->failure);
  }
  recorded_->on_batch_done({slice, batch, how == BatchEnd::done, rejected_upstream, how == BatchEnd::stopped});
}

// ---- Slices ----

// A batch whose time was known in advance ends now; its own completion comes later and is ignored.
void LiveWorld::stop(SliceId slice, bool must) {
  const SliceRun& run = runs_.at(slice);
  if (run.busy && run.executor->stop(run.batch, must)) {
    events_.add(now_, WorldEventKind::stopped, slice.value(), run.batch.value());
  }
}

void LiveWorld::restart(SliceId slice) {
  SliceRun& run = run_of(slice);
  // The batch that runs is lost with the restart. Its members get the reason in case no retry is possible.
  if (run.busy) {
    ledger_.count_failure(slice);
    run.fail_members(run.failure.empty() ? "the slice did not answer in time" : std::string(run.failure));
  }
  run.busy = false;
  ledger_.count_restart(slice);
  ++restarting_;
  if (is_dead(scheduler().state().slices[slice.index()].place.device)) {
    return events_.add(now_ + kDeadAnswer, WorldEventKind::not_restarted, slice.value());
  }
  // True: usable at once. Otherwise Inbox::on_restarted() brings the answer.
  if (run.executor->restart()) events_.add(now_, WorldEventKind::restarted, slice.value());
}

// A slice of the device that is being re-cut can be ready and lost again while others of the device still start. The
// scheduler does not use it yet and would ignore the loss, so it is told when the slice has joined.
void LiveWorld::lost(SliceId slice) {
  if (scheduler().state().slices[slice.index()].status == sched::SliceStatus::planned) {
    DeviceWarmup* const warmup = warmup_of(slice);
    // Started again, the device waits for it; otherwise it is ready without it.
    if (warmup == nullptr) {
      // Its device is not cut yet, so nothing has been started there.
    } else if (warmup->waits_for(slice) || !warmup->try_again(slice)) {
      warmup->lost(slice);
    } else if (!runs_.at(slice).executor->restart()) {
      warmup->wait_for(slice);
    }
  } else {
    recorded_->on_slice_lost(slice);
  }
  // Whoever was in its batch has the reason. A later batch that fails in silence must not be told this one.
  runs_.at(slice).failure.clear();
}

// Answers either the scheduler, which asked for the restart, or reshape(), which started a slice that the scheduler
// does not use yet. Only the former is counted in restarting_.
void LiveWorld::restarted(SliceId slice, bool ok) {
  if (ok) std::erase(starting_, slice);
  DeviceWarmup* const warmup = warmup_of(slice);
  if (warmup == nullptr || !warmup->waits_for(slice)) {
    --restarting_;
    return recorded_->on_restarted(slice, ok);
  }
  if (!ok && warmup->try_again(slice)) {
    // Usable at once, or its answer comes.
    if (!runs_.at(slice).executor->restart()) return;
    ok = true;
  }
  warmup->answered(slice, ok);
  if (warmup->all_answered()) finish_warmup(scheduler().state().slices[slice.index()].place.device);
}

DeviceWarmup* LiveWorld::warmup_of(SliceId slice) {
  const auto found = warmups_.find(scheduler().state().slices[slice.index()].place.device);
  return found == warmups_.end() ? nullptr : &found->second;
}

void LiveWorld::finish_warmup(DeviceId device) {
  warmups_.at(device).finish();
  events_.add(now_, WorldEventKind::reshaped, device.value());
}

// A new slice at the place of one that has left goes on with its executor, where that can change its models. The
// executors of all other slices that the plan no longer has are released before the rest of the new slices starts. The
// device is ready when all of them have answered.
void LiveWorld::reshape(DeviceId device, const Layout& target) {
  // A dead device that is only given back needs no cut.
  if (is_dead(device) && !target.slices.empty()) {
    return events_.add(now_ + kDeadAnswer, WorldEventKind::not_cut, device.value());
  }
  if (config_.cut) {
    close_slices_to_cut(device, target);
    return config_.cut(device, scheduler().state().deployment.devices[device.index()], target);
  }
  if (!config_.recut_time) return start_slices(device);
  const Duration takes = config_.recut_time(scheduler().state().deployment.devices[device.index()], target);
  events_.add(now_ + takes, WorldEventKind::cut, device.value());
}

void LiveWorld::set_dead(const std::string& device, bool dead) {
  if (!dead) {
    dead_.erase(device);
    return;
  }
  if (!dead_.insert(device).second) return;
  const sched::State& state = scheduler().state();
  // Idle slices first: a batch that is lost runs once more, and must not do so on the same device.
  for (const auto lost : {sched::SliceStatus::idle, sched::SliceStatus::busy}) {
    for (std::uint32_t i = 0; i < state.slices.size(); ++i) {
      if (state.slices[i].status != lost || !is_dead(state.slices[i].place.device)) continue;
      runs_.at(SliceId(i)).failure = "the device is lost";
      recorded_->on_slice_lost(SliceId(i));
    }
  }
}

void LiveWorld::start_slices(DeviceId device) {
  DeviceWarmup& warmup = warmups_[device] = {};
  const auto& slices = scheduler().state().slices;
  std::vector<SliceId> to_start;
  for (std::uint32_t i = 0; i < slices.size(); ++i) {
    if (slices[i].place.device != device || slices[i].status != sched::SliceStatus::planned) continue;
    if (take_over(SliceId(i))) {
      warmup.wait_for(SliceId(i));
    } else {
      to_start.push_back(SliceId(i));
    }
  }
  close_gone_slices(device);
  for (const SliceId slice : to_start) {
    engines::Executor& executor = *run_of(slice).executor;
    if (!executor.ready() && !executor.restart()) warmup.wait_for(slice);
  }
  // Nothing to wait for, but the answer still must not come from inside this call.
  if (warmup.all_answered()) finish_warmup(device);
}

bool LiveWorld::take_over(SliceId slice) {
  if (!config_.change_executor || runs_.is_open(slice)) return false;
  const auto& slices = scheduler().state().slices;
  const sched::Place& place = slices[slice.index()].place;
  for (std::uint32_t i = 0; i < slices.size(); ++i) {
    const sched::Place& left = slices[i].place;
    const bool same_cut = left.device == place.device && left.slice == place.slice && left.process == place.process;
    if (slices[i].status != sched::SliceStatus::gone || !same_cut || !runs_.is_open(SliceId(i))) continue;
    if (!config_.change_executor(slice, place, *runs_.at(SliceId(i)).executor)) continue;
    ledger_.grow(slice.index() + 1);
    runs_.hand_over(SliceId(i), slice);
    return true;
  }
  return false;
}

// A slice that did not become ready, or did not stay so, is reported as lost: the other slices of the device serve, and
// the scheduler restarts this one until it is ready or another plan replaces it. So one broken slice does not fail the
// move.
void LiveWorld::reshaped(DeviceId device) {
  const std::vector<SliceId> failed = warmups_.at(device).failed();
  warmups_.erase(device);
  recorded_->on_reshaped(device, true);
  for (const SliceId slice : failed) {
    SliceRun& run = run_of(slice);
    // The scheduler can have launched a batch on the slice inside on_reshaped(), before it knew that the slice is lost.
    if (run.busy) run.failure = "the slice is not ready";
    recorded_->on_slice_lost(slice);
  }
}

void LiveWorld::close_slices_to_cut(DeviceId device, const Layout& target) {
  const auto& slices = scheduler().state().slices;
  for (std::uint32_t i = 0; i < slices.size(); ++i) {
    const sched::SliceState& slice = slices[i];
    if (slice.status != sched::SliceStatus::gone || slice.place.device != device) continue;
    if (std::ranges::find(target.slices, slice.place.slice) == target.slices.end()) runs_.close(SliceId(i));
  }
}

void LiveWorld::close_gone_slices(DeviceId device) {
  const auto& slices = scheduler().state().slices;
  std::set<DeviceId> growing;
  for (const auto& slice : slices) {
    if (slice.status == sched::SliceStatus::planned && slice.place.device != device) growing.insert(slice.place.device);
  }
  for (std::uint32_t i = 0; i < slices.size(); ++i) {
    const bool gone = slices[i].status == sched::SliceStatus::gone;
    if (gone && !growing.contains(slices[i].place.device)) runs_.close(SliceId(i));
  }
  std::erase_if(starting_, [&](SliceId slice) { return slices[slice.index()].status == sched::SliceStatus::gone; });
}

void LiveWorld::lend(SliceId slice) {
  if (config_.lend) config_.lend(slice);
}

void LiveWorld::recall(SliceId slice) {
  if (config_.recall) return config_.recall(slice);
  events_.add(now_, WorldEventKind::returned, slice.value());
}

std::unique_ptr<sched::Lending> LiveWorld::make_lending(const sched::LendingConfig& config,
                                                        const sched::LendingPlan& plan) {
  auto needs = sched::needs_of_running(scheduler().state(), plan);
  if (!needs) return nullptr;
  return std::make_unique<sched::Lending>(recorded_->scheduler(), config, std::move(*needs));
}

void LiveWorld::take_models() {
  ledger_.grow_services(models_.size());
  loaded_.resize(models_.size(), true);
  in_flight_by_.resize(models_.size(), 0);
}

// Errors leave everything as it was. Models and counters are indexed by service, so a service keeps its index, and new
// ones follow behind.
Result<Nothing> LiveWorld::change_plan(const sched::Deployment& next) {
  if (scheduler().moving()) return Error{ErrorCode::unavailable, "the server is still moving to another plan"};
  const auto& served = scheduler().state().deployment.services;
  const bool known = next.services.size() == models_.size() && served.size() <= next.services.size() &&
                     std::ranges::equal(served, std::span(next.services).first(served.size()), {},
                                        &sched::DeployedService::name, &sched::DeployedService::name);
  if (!known) return Error{ErrorCode::invalid, "the plan is for other services than those that are known"};
  recorded_->on_plan_ready(next);
  ++plans_applied_;
  return Nothing{};
}

}  // namespace tangram::serve

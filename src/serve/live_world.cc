#include "serve/live_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "sched/admission.h"
#include "serve/call_request.h"

namespace tangram::serve {
namespace {

// True if a slice of the pool is being started again and will serve.
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
      loaded_(models.size(), true) {
  TANGRAM_CHECK(deployment.services.size() == models.size(), "every service is a model");
  config_.scheduler.requests_max = std::min(config_.scheduler.requests_max, kCallsMax);
  World& world = *this;
  recorded_ =
      std::make_unique<sched::RecordedScheduler>(world, std::move(deployment), config_.scheduler, config_.recording);
}

LiveWorld::~LiveWorld() = default;

// ---- The loop ----

void LiveWorld::take_inbox() {
  inbox_.take(posted_);
  for (auto& report : posted_.reports) {
    events_.add(now_, report.kind, report.slice.value(), report.batch.value());
    if (!report.reason.empty()) runs_.at(report.slice).failure = std::move(report.reason);
  }
  for (const auto& [slice, retry_after] : posted_.rejected_upstream) runs_.at(slice).rejected_upstream = retry_after;
  posted_.reports.clear();
  posted_.rejected_upstream.clear();
}

void LiveWorld::open_slices() {
  for (std::uint32_t i = 0; i < runs_.count(); ++i) {
    const SliceId slice(i);
    if (run_of(slice).executor->ready()) continue;
    starting_.push_back(slice);
    recorded_->on_slice_lost(slice);
    ledger_.forget_restarts(slice);
  }
}

void LiveWorld::step(TimePoint now) {
  now_ = std::max(now_, now);
  take_inbox();
  std::size_t arrived = 0;
  while (true) {
    if (events_.next_due() <= now_) {
      handle(events_.take());
      if (!held_.empty()) release_held();
    } else if (arrived < posted_.calls.size()) {
      std::visit([this](auto* call) { arrive(call); }, posted_.calls[arrived++]);
    } else if (wake_at_ <= now_) {
      wake_at_ = kTimeNever;
      recorded_->on_wake();
    } else if (held_.next_due() <= now_) {
      refuse_held();
    } else {
      break;
    }
  }
  posted_.calls.clear();
}

TimePoint LiveWorld::next_due() const { return std::min({wake_at_, held_.next_due(), events_.next_due()}); }

void LiveWorld::handle(const WorldEvent& event) {
  const SliceId slice(event.index);
  switch (event.kind) {
    case WorldEventKind::done: return complete(slice, BatchId(event.batch), true);
    case WorldEventKind::failed: return complete(slice, BatchId(event.batch), false);
    case WorldEventKind::lost: return recorded_->on_slice_lost(slice);
    case WorldEventKind::restarted: return restarted(slice, true);
    case WorldEventKind::not_restarted: return restarted(slice, false);
    case WorldEventKind::reshaped: return reshaped(DeviceId(event.index));
    case WorldEventKind::returned: return recorded_->on_returned(slice);
  }
}

// ---- Calls ----

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
  if (!loaded_[model.service.index()]) {
    return answer_problem(call, CallStatus::unavailable, fmt::format("model '{}' is unloaded", model.name));
  }
  if (in_flight() == kCallsMax) return answer_problem(call, CallStatus::refused, "too many requests are in flight");
  call->arrived = now_;
  if (must_wait(*call)) {
    hold(call);
  } else {
    admit(call);
  }
}

// True while a plan is being put in place or workers start again and no slice serves the request now, but one will: the
// scheduler would refuse it for want of capacity, and the client did nothing wrong.
bool LiveWorld::must_wait(const Call& call) const {
  const bool moving = scheduler().moving();
  if (!moving && restarting_ == 0) return false;
  const sched::View view(scheduler().state());
  Request request;
  request.service = call.model->service;
  request.samples = call.samples;
  const sched::DeployedService& service = view.service(request.service);
  const std::uint32_t bucket = service.bucket_of(call.size);
  if (bucket == service.edges.size() || sched::serves_now(view, request, bucket)) return false;
  if (moving) return sched::why_never(view, request, bucket) == RejectReason::none;
  return sched::any_pool_that_takes(view, request, bucket,
                                    [&](sched::PoolId pool) { return restarts(scheduler().state(), pool); });
}

Duration LiveWorld::promise_to(const Call& call) const {
  return scheduler().state().deployment.services[call.model->service.index()].slo.latency;
}

void LiveWorld::hold(Call* call) { held_.add(call, deadline_of(*call, promise_to(*call))); }

// A plan that came meanwhile may have changed the promise, so the deadline is asked for anew.
void LiveWorld::refuse_held() {
  for (Call* call : held_.take_all()) {
    if (deadline_of(*call, promise_to(*call)) > now_) {
      hold(call);
      continue;
    }
    Request request;
    request.service = call->model->service;
    request.tenant = call->tenant;
    end(call, request, {OutcomeKind::rejected, RejectReason::no_capacity, kTimeNever});
  }
}

void LiveWorld::release_held() {
  for (Call* call : held_.take_all()) {
    if (must_wait(*call)) {
      hold(call);
    } else {
      admit(call);
    }
  }
}

void LiveWorld::admit(Call* call) {
  calls_.add(call);
  recorded_->on_arrival(request_of(*call, promise_to(*call), now_));
}

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

void LiveWorld::end(Call* call, const Request& request, const Outcome& outcome) {
  bool never_in_time = false;
  if (outcome.reason == RejectReason::too_late) {
    // A call that was held until slices were ready arrived before the request that the scheduler knows.
    Request as_sent = request;
    as_sent.arrival = call->arrived;
    never_in_time = !scheduler().could_be_in_time(as_sent);
  }
  const bool answered = outcome.kind == OutcomeKind::served || outcome.kind == OutcomeKind::late;
  if (!answered) explain_unanswered(*call, request, outcome, never_in_time);
  ledger_.count_ended(*call, outcome, never_in_time, now_);
  if (config_.on_resolved) config_.on_resolved(*call, outcome, now_);
  call->owner->on_answered(call);
}

// ---- Batches ----

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
  const Duration expected =
      entry == nullptr ? batch.predicted : Duration(entry->latency.mean_ns(batch.bucket, batch.samples));
  const engines::BatchJob job{batch.id, batch.service, batch.samples, batch.padded_size, expected};
  const auto memory = run.executor->prepare(job);
  if (!memory) {
    run.failure = memory.error().message;
    return events_.add(now_, WorldEventKind::failed, batch.slice.value(), batch.id.value());
  }
  run.memory = *memory;
  run.gather_inputs(models_[batch.service.index()], batch.samples);
  if (const auto takes = run.executor->start(job)) {
    events_.add(now_ + *takes, WorldEventKind::done, batch.slice.value(), batch.id.value());
  }
}

void LiveWorld::complete(SliceId slice, BatchId batch, bool ok) {
  SliceRun* run = runs_.end(slice, batch);
  if (run == nullptr) return;
  const Duration took = now_ - run->started;
  const ServedModel& model = *run->members.front()->model;
  bool rejected_upstream = false;
  if (ok) {
    run->scatter_outputs();
    const std::int32_t samples = run->samples();
    if (config_.on_batch) config_.on_batch(slice, model, samples, run->size, took);
    const bool background = run->members.front()->background > 0;
    ledger_.count_batch({slice, model.service, samples, background, took});
  } else {
    rejected_upstream = run->rejected_upstream > Duration::zero();
    ledger_.count_failed_batch(slice, took, !rejected_upstream);
    if (config_.on_failure && !rejected_upstream) config_.on_failure(slice, model, run->members.size(), run->failure);
    run->fail_members(run->failure);
  }
  recorded_->on_batch_done({slice, batch, ok, rejected_upstream});
}

// ---- Slices ----

void LiveWorld::restart(SliceId slice) {
  SliceRun& run = run_of(slice);
  if (run.busy) {
    ledger_.count_failure(slice);
    run.fail_members(run.failure.empty() ? "the slice did not answer in time" : std::string(run.failure));
  }
  run.busy = false;
  ledger_.count_restart(slice);
  ++restarting_;
  if (run.executor->restart()) events_.add(now_, WorldEventKind::restarted, slice.value());
}

// The scheduler has asked for the restart, or reshape() has, of a slice that the scheduler does not know yet.
void LiveWorld::restarted(SliceId slice, bool ok) {
  if (ok) std::erase(starting_, slice);
  if (!warmup_.waits_for(slice)) {
    --restarting_;
    return recorded_->on_restarted(slice, ok);
  }
  warmup_.answered(slice, ok);
  if (warmup_.all_answered()) events_.add(now_, WorldEventKind::reshaped, warmup_.finish().value());
}

// Slices that the plan no longer has give up what they hold; those that it brings are made ready, and then the device
// is.
void LiveWorld::reshape(DeviceId device, const Layout&) {
  close_gone_slices();
  warmup_.begin(device);
  const auto& slices = scheduler().state().slices;
  for (std::uint32_t i = 0; i < slices.size(); ++i) {
    if (slices[i].place.device != device || slices[i].status != sched::SliceStatus::planned) continue;
    engines::Executor& executor = *run_of(SliceId(i)).executor;
    if (!executor.ready() && !executor.restart()) warmup_.wait_for(SliceId(i));
  }
  if (warmup_.all_answered()) events_.add(now_, WorldEventKind::reshaped, warmup_.finish().value());
}

// A slice that did not get ready is one that was lost: the others of the device serve, and it is started again and
// again until it is ready or another plan comes.
void LiveWorld::reshaped(DeviceId device) {
  const std::vector<SliceId> failed = warmup_.take_failed();
  recorded_->on_reshaped(device, true);
  for (const SliceId slice : failed) {
    SliceRun& run = run_of(slice);
    if (run.busy) run.failure = "the slice is not ready";
    recorded_->on_slice_lost(slice);
  }
}

void LiveWorld::close_gone_slices() {
  const auto& slices = scheduler().state().slices;
  for (std::uint32_t i = 0; i < slices.size(); ++i) {
    if (slices[i].status == sched::SliceStatus::gone) runs_.close(SliceId(i));
  }
  std::erase_if(starting_, [&](SliceId slice) { return slices[slice.index()].status == sched::SliceStatus::gone; });
}

void LiveWorld::recall(SliceId slice) { events_.add(now_, WorldEventKind::returned, slice.value()); }

Result<Nothing> LiveWorld::change_plan(const sched::Deployment& next) {
  if (scheduler().moving()) return Error{ErrorCode::unavailable, "another plan is being put in place"};
  const auto& served = scheduler().state().deployment.services;
  const bool same =
      std::ranges::equal(served, next.services, {}, &sched::DeployedService::name, &sched::DeployedService::name);
  if (!same) return Error{ErrorCode::invalid, "the services have other names or another order: that needs a new start"};
  recorded_->on_plan_ready(next);
  ++plans_applied_;
  return Nothing{};
}

}  // namespace tangram::serve

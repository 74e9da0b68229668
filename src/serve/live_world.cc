#include "serve/live_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "sched/admission.h"
#include "sched/background.h"
#include "serve/padding.h"

namespace tangram::serve {
namespace {

constexpr unsigned kSlotBits = 20;
static_assert(kCallsMax == std::size_t{1} << kSlotBits);

// Priorities of requests that name one lie above those that do not, the highest first.
constexpr std::int64_t kPriorityLevels = 1'000'000;

// How long a request in the background waits that says nothing of it.
constexpr Duration kBackgroundPatience = std::chrono::seconds(60);

std::int32_t priority_of(const Call& call) {
  if (call.background > 0) {
    return call.background == 1 ? sched::kPriorityBackground : sched::kPriorityBackgroundPressed;
  }
  if (call.priority == 0) return call.model->priority;
  return static_cast<std::int32_t>(kPriorityLevels - std::min(call.priority, kPriorityLevels - 2000));
}

// How long a client should wait that was refused because it would have been late: until there was room for it.
Duration retry_after(const Request& request, const Outcome& outcome) {
  if (outcome.earliest == kTimeNever) return std::chrono::seconds(1);
  return std::max<Duration>(outcome.earliest - request.deadline, std::chrono::milliseconds(1));
}

// The size of requests that say nothing of it, where no axis tells.
std::int64_t size_fixed_of(const Service& service) {
  const auto* constant = std::get_if<ConstantSize>(&service.input_size);
  return constant == nullptr ? 1 : constant->size;
}

std::string change_of_service(const Service& served, const Service& next) {
  if (served.model != next.model) {
    return fmt::format("another model, '{}' in place of '{}'", next.model, served.model);
  }
  if (served.signature() != next.signature()) return "other tensors";
  if (served.priority != next.priority) {
    return fmt::format("another priority, {} in place of {}", next.priority, served.priority);
  }
  const bool axis_tells = std::ranges::any_of(served.signature().inputs, has_variable_axis);
  if (!axis_tells && size_fixed_of(served) != size_fixed_of(next)) {
    return fmt::format("another input_size, {} in place of {}", size_fixed_of(next), size_fixed_of(served));
  }
  return "";
}

}  // namespace

std::vector<ServedModel> served_models(const sched::Deployment& deployment, const Workload& workload,
                                       const std::string& engine) {
  std::vector<ServedModel> models;
  for (std::size_t i = 0; i < workload.services.size(); ++i) {
    const Service& service = workload.services[i];
    models.push_back({.service = ServiceId(static_cast<std::uint32_t>(i)),
                      .name = service.name,
                      .network = service.model,
                      .platform = engine,
                      .signature = service.signature(),
                      .size_fixed = size_fixed_of(service),
                      .samples_max = deployment.services[i].samples_max,
                      .priority = service.priority});
  }
  return models;
}

Result<Nothing> check_served_alike(const Workload& served, const Workload& next) {
  const std::size_t both = std::min(served.services.size(), next.services.size());
  for (std::size_t i = 0; i < both; ++i) {
    if (served.services[i].name != next.services[i].name) return Nothing{};  // Whoever takes the plan refuses that.
    const std::string change = change_of_service(served.services[i], next.services[i]);
    if (change.empty()) continue;
    return Error{ErrorCode::invalid,
                 fmt::format("service '{}' has {}: that needs a new start", served.services[i].name, change)};
  }
  return Nothing{};
}

LiveWorld::LiveWorld(sched::Deployment deployment, const std::vector<ServedModel>& models, LiveWorldConfig config)
    : models_(models), config_(std::move(config)) {
  TANGRAM_CHECK(deployment.services.size() == models.size(), "every service is a model");
  config_.scheduler.requests_max = std::min(config_.scheduler.requests_max, kCallsMax);
  loaded_.assign(models.size(), true);
  services_.resize(models.size());
  runs_.resize(deployment.places.size());
  slices_.resize(deployment.places.size());
  World& world = *this;
  recorded_ =
      std::make_unique<sched::RecordedScheduler>(world, std::move(deployment), config_.scheduler, config_.recording);
}

LiveWorld::~LiveWorld() = default;

// ---- From any thread ----

void LiveWorld::post(Call* call, bool wake) {
  bool first = false;
  {
    const std::lock_guard lock(inbox_mutex_);
    first = inbox_calls_.empty() && inbox_events_.empty();
    inbox_calls_.push_back(call);
  }
  if (first && wake && waker_) waker_();
}

void LiveWorld::wake_for_posted() {
  bool waiting = false;
  {
    const std::lock_guard lock(inbox_mutex_);
    waiting = !inbox_calls_.empty();
  }
  if (waiting && waker_) waker_();
}

void LiveWorld::post_event(EventKind kind, SliceId slice, std::uint64_t batch, std::string reason) {
  {
    const std::lock_guard lock(inbox_mutex_);
    if (!reason.empty()) inbox_failures_.emplace_back(slice, std::move(reason));
    inbox_events_.push_back({kTimeZero, 0, kind, slice.value(), batch});
  }
  if (waker_) waker_();
}

void LiveWorld::on_done(SliceId slice, BatchId batch, std::string failure) {
  const EventKind kind = failure.empty() ? EventKind::done : EventKind::failed;
  post_event(kind, slice, batch.value(), std::move(failure));
}

void LiveWorld::on_lost(SliceId slice, std::string reason) { post_event(EventKind::lost, slice, 0, std::move(reason)); }

void LiveWorld::on_restarted(SliceId slice, bool ok) {
  post_event(ok ? EventKind::restarted : EventKind::not_restarted, slice, 0);
}

void LiveWorld::on_turned_away(SliceId slice, Duration retry_after) {
  const std::lock_guard lock(inbox_mutex_);
  inbox_turned_away_.emplace_back(slice, retry_after);
}

// ---- The loop ----

void LiveWorld::take_inbox() {
  const std::lock_guard lock(inbox_mutex_);
  if (arrivals_.empty()) {
    arrivals_.swap(inbox_calls_);
  } else {
    arrivals_.insert(arrivals_.end(), inbox_calls_.begin(), inbox_calls_.end());
    inbox_calls_.clear();
  }
  for (auto& event : inbox_events_) schedule(now_, event.kind, event.index, event.batch);
  inbox_events_.clear();
  for (auto& [slice, reason] : inbox_failures_) runs_[slice.index()].failure = std::move(reason);
  inbox_failures_.clear();
  for (const auto& [slice, retry_after] : inbox_turned_away_) runs_[slice.index()].turned_away = retry_after;
  inbox_turned_away_.clear();
}

void LiveWorld::open_slices() {
  for (std::uint32_t i = 0; i < runs_.size(); ++i) {
    const SliceId slice(i);
    if (run_of(slice).executor->ready()) continue;
    starting_.push_back(slice);
    recorded_->on_slice_lost(slice);
    slices_[i].restarts = 0;  // The first start is none.
  }
}

void LiveWorld::step(TimePoint now) {
  now_ = std::max(now_, now);
  take_inbox();
  while (true) {
    if (!events_.empty() && events_.top().when <= now_) {
      const Event event = events_.top();
      events_.pop();
      handle(event);
      if (!held_.empty()) release_held();
    } else if (arrivals_at_ < arrivals_.size()) {
      arrive(arrivals_[arrivals_at_++]);
    } else if (wake_at_ <= now_) {
      wake_at_ = kTimeNever;
      recorded_->on_wake();
    } else if (held_due_ <= now_) {
      refuse_held();
    } else {
      break;
    }
  }
  arrivals_.clear();
  arrivals_at_ = 0;
}

TimePoint LiveWorld::next_due() const {
  const TimePoint due = std::min(wake_at_, held_due_);
  return events_.empty() ? due : std::min(due, events_.top().when);
}

void LiveWorld::schedule(TimePoint when, EventKind kind, std::uint32_t index, std::uint64_t batch) {
  events_.push({when, sequence_++, kind, index, batch});
}

void LiveWorld::handle(const Event& event) {
  const SliceId slice(event.index);
  switch (event.kind) {
    case EventKind::done: return complete(slice, BatchId(event.batch), true);
    case EventKind::failed: return complete(slice, BatchId(event.batch), false);
    case EventKind::lost: return recorded_->on_slice_lost(slice);
    case EventKind::restarted: return restarted(slice, true);
    case EventKind::not_restarted: return restarted(slice, false);
    case EventKind::reshaped: return reshaped(DeviceId(event.index));
    case EventKind::returned: return recorded_->on_returned(slice);
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

void LiveWorld::arrive(Call* call) {
  if (call->control) {
    call->control(*this, *call);
    call->owner->on_answered(call);
    return;
  }
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
  return sched::any_pool_that_takes(view, request, bucket, [this](sched::PoolId pool) { return restarts(pool); });
}

bool LiveWorld::restarts(sched::PoolId pool) const {
  return std::ranges::any_of(scheduler().state().slices, [&](const sched::SliceState& slice) {
    return slice.place.pool == pool && slice.status == sched::SliceStatus::restarting && !slice.retiring;
  });
}

TimePoint LiveWorld::deadline_of(const Call& call) const {
  const Duration promised = call.background > 0
                                ? kBackgroundPatience
                                : scheduler().state().deployment.services[call.model->service.index()].slo.latency;
  return add_saturating(call.arrived, call.deadline.value_or(promised));
}

void LiveWorld::hold(Call* call) {
  held_.push_back(call);
  held_due_ = std::min(held_due_, deadline_of(*call));
}

// Those that no slice came back for in time.
void LiveWorld::refuse_held() {
  std::vector<Call*> waiting;
  waiting.swap(held_);
  held_due_ = kTimeNever;
  for (Call* call : waiting) {
    if (deadline_of(*call) > now_) {
      hold(call);
      continue;
    }
    Request request;
    request.service = call->model->service;
    request.tenant = call->tenant;
    const Outcome outcome{OutcomeKind::rejected, RejectReason::no_capacity, kTimeNever};
    explain(*call, request, outcome);
    count(*call, request, outcome, false);
    if (config_.on_resolved) config_.on_resolved(*call, outcome, now_);
    call->owner->on_answered(call);
  }
}

void LiveWorld::release_held() {
  std::vector<Call*> waiting;
  waiting.swap(held_);
  held_due_ = kTimeNever;
  for (Call* call : waiting) {
    if (must_wait(*call)) {
      hold(call);
    } else {
      admit(call);
    }
  }
}

void LiveWorld::admit(Call* call) {
  const ServedModel& model = *call->model;
  std::uint32_t slot = 0;
  if (calls_free_.empty()) {
    slot = static_cast<std::uint32_t>(calls_.size());
    calls_.push_back(call);
  } else {
    slot = calls_free_.back();
    calls_free_.pop_back();
    calls_[slot] = call;
  }
  ++calls_used_;
  Request request;
  request.id = RequestId((requests_++ << kSlotBits) | slot);
  request.service = model.service;
  request.tenant = call->tenant;
  request.priority = priority_of(*call);
  request.samples = call->samples;
  request.size = call->size;
  request.arrival = now_;
  request.deadline = deadline_of(*call);
  call->request = request.id;
  recorded_->on_arrival(request);
}

void LiveWorld::resolve(const Request& request, const Outcome& outcome, const sched::Batch* batch) {
  const auto slot = static_cast<std::uint32_t>(request.id.value() & (kCallsMax - 1));
  Call* call = calls_[slot];
  TANGRAM_CHECK(call != nullptr && call->request == request.id, "a call is answered once");
  calls_[slot] = nullptr;
  calls_free_.push_back(slot);
  --calls_used_;
  const bool answered = outcome.kind == OutcomeKind::served || outcome.kind == OutcomeKind::late;
  if (answered) {
    call->compute = batch->took;
    call->batch_samples = batch->samples;
    call->slice = batch->slice;
    call->bucket = batch->bucket;
  } else {
    explain(*call, request, outcome);
  }
  count(*call, request, outcome, answered);
  if (config_.on_resolved) config_.on_resolved(*call, outcome, now_);
  call->owner->on_answered(call);
}

// Whether the time that the client gave is enough for the run itself. A call that was held until slices were ready
// arrived before the request that the scheduler knows.
bool LiveWorld::could_be_in_time(const Call& call, Request request) const {
  request.arrival = call.arrived;
  return scheduler().could_be_in_time(request);
}

// Why there is no answer, in words and in the words of the protocols.
void LiveWorld::explain(Call& call, const Request& request, const Outcome& outcome) const {
  call.answer.clear();
  call.answer_ends.clear();
  call.status = CallStatus::failed;
  if (outcome.kind == OutcomeKind::failed) {
    call.error = fmt::format("model '{}': {}", call.model->name,
                             call.failure.empty() ? "the slice that ran the request failed" : call.failure);
    if (call.turned_away == Duration::zero()) return;
    call.status = CallStatus::unavailable;
    call.retry_after = call.turned_away;
    return;
  }
  switch (outcome.reason) {
    case RejectReason::too_late:
      call.status = CallStatus::refused;
      call.error = fmt::format("model '{}': no slice can answer within {:.3f} ms", call.model->name,
                               to_milliseconds(request.deadline - request.arrival));
      // To wait is no use where the time is too short for the run itself.
      if (could_be_in_time(call, request)) {
        call.retry_after = retry_after(request, outcome);
      } else {
        call.error += ", not even an idle one";
      }
      return;
    case RejectReason::queue_full:
      call.status = CallStatus::refused;
      if (call.turned_away > Duration::zero()) {
        call.error = fmt::format("model '{}': {}", call.model->name, call.failure);
        call.retry_after = call.turned_away;
        return;
      }
      call.retry_after = std::chrono::seconds(1);
      call.error = "too many requests wait";
      return;
    case RejectReason::too_large:
      call.status = CallStatus::invalid;
      call.error = fmt::format("model '{}': no slice of the plan takes {} samples of size {}", call.model->name,
                               request.samples, request.size);
      return;
    case RejectReason::no_capacity:
      call.status = CallStatus::unavailable;
      call.retry_after = std::chrono::seconds(1);
      call.error = fmt::format("model '{}': no slice serves it now", call.model->name);
      return;
    case RejectReason::none: return;
  }
}

void LiveWorld::count(const Call& call, const Request& request, const Outcome& outcome, bool answered) {
  ServiceTally& tally = services_[request.service.index()];
  if (call.background > 0) {
    ++tally.background[static_cast<std::size_t>(outcome.kind)];
    return;
  }
  ++tally.outcomes[static_cast<std::size_t>(outcome.kind)];
  const bool never_in_time = outcome.reason == RejectReason::too_late && !could_be_in_time(call, request);
  if (never_in_time) ++tally.never_in_time;
  // What no slice could ever have served says nothing about how the promise is kept.
  if (!never_in_time && outcome.reason != RejectReason::too_large) {
    tally.attainment.add(now_, outcome.kind == OutcomeKind::served);
  }
  const Duration here = now_ - call.arrived;
  if (!answered) {
    ++tally.rejected[static_cast<std::size_t>(outcome.reason)];
    tally.failed_ns += static_cast<std::uint64_t>(here.count());
    return;
  }
  tally.last_ms = config_.wall_start_ms + now_.time_since_epoch() / std::chrono::milliseconds(1);
  tally.samples += static_cast<std::uint64_t>(call.samples);
  tally.latency.add(here);
  tally.queue.add(here - call.compute);
  tally.compute.add(call.compute);
  tally.size_real += static_cast<double>(call.size) * call.samples;
  tally.size_padded += static_cast<double>(call.padded_size) * call.samples;
}

// ---- Batches ----

LiveWorld::Run& LiveWorld::run_of(SliceId slice) {
  if (slice.index() >= runs_.size()) {
    runs_.resize(slice.index() + 1);
    slices_.resize(runs_.size());
  }
  Run& run = runs_[slice.index()];
  if (run.executor == nullptr) {
    run.executor = config_.make_executor(slice, scheduler().state().slices[slice.index()].place, *this);
  }
  return run;
}

std::int64_t LiveWorld::process_of(SliceId slice) const {
  const bool has = slice.index() < runs_.size() && runs_[slice.index()].executor != nullptr;
  return has ? runs_[slice.index()].executor->process() : 0;
}

void LiveWorld::launch(const sched::Batch& batch) {
  Run& run = run_of(batch.slice);
  TANGRAM_CHECK(!run.busy, "a slice runs one batch at a time");
  run.busy = true;
  run.batch = batch.id;
  run.size = batch.padded_size;
  run.started = now_;
  run.members.clear();
  for (const Request* member : batch.members) {
    Call* call = calls_[member->id.value() & (kCallsMax - 1)];
    call->launched = now_;
    call->failure.clear();
    call->turned_away = {};
    call->padded_size = batch.padded_size;
    run.members.push_back(call);
  }
  const sched::View view(scheduler().state());
  const auto* entry = view.pool_service(view.slice(batch.slice).place.pool, batch.service);
  const Duration expected =
      entry == nullptr ? batch.predicted : Duration(entry->latency.mean_ns(batch.bucket, batch.samples));
  const engines::BatchJob job{batch.id, batch.service, batch.samples, batch.padded_size, expected};
  const auto memory = run.executor->prepare(job);
  if (!memory) {
    run.failure = memory.error().message;
    return schedule(now_, EventKind::failed, batch.slice.value(), batch.id.value());
  }
  run.memory = *memory;
  fill(run, batch, models_[batch.service.index()]);
  if (const auto takes = run.executor->start(job)) {
    schedule(now_ + *takes, EventKind::done, batch.slice.value(), batch.id.value());
  }
}

// Puts the inputs of all members side by side, each padded to the batch's size.
void LiveWorld::fill(const Run& run, const sched::Batch& batch, const ServedModel& model) {
  const auto& specs = model.signature.inputs;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    std::byte* target = run.memory->inputs[i].data();
    const std::size_t sample = run.memory->inputs[i].size() / static_cast<std::size_t>(batch.samples);
    for (const Call* call : run.members) {
      const Fit fit{call->samples, call->extent, batch.padded_size};
      const CallInput& input = call->inputs[i];
      if (input.given) {
        pad_into(specs[i], std::as_bytes(std::span(input.data)), fit, target);
      } else {
        write_mask(specs[i], fit, target);
      }
      target += sample * static_cast<std::size_t>(call->samples);
    }
  }
}

// Gives each member its part of the outputs, cut to what it brought.
void LiveWorld::collect(const Run& run) {
  std::int64_t before = 0;
  std::int64_t total = 0;
  for (const Call* call : run.members) total += call->samples;
  for (Call* call : run.members) {
    const auto& specs = call->model->signature.outputs;
    call->answer.clear();
    call->answer_ends.clear();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const std::span<const std::byte> output = run.memory->outputs[i];
      const std::size_t sample = output.size() / static_cast<std::size_t>(total);
      cut_from(specs[i], output.data() + sample * static_cast<std::size_t>(before),
               {call->samples, call->extent, run.size}, call->answer);
      call->answer_ends.push_back(call->answer.size());
    }
    before += call->samples;
  }
}

void LiveWorld::complete(SliceId slice, BatchId batch, bool ok) {
  Run& run = runs_[slice.index()];
  if (!run.busy || run.batch != batch) return;  // It was given up.
  run.busy = false;
  const Duration took = now_ - run.started;
  SliceServed& tally = slices_[slice.index()];
  tally.busy_ns += took.count();
  bool turned_away = false;
  if (ok) {
    collect(run);
    ++tally.batches;
    std::int32_t samples = 0;
    for (const Call* call : run.members) samples += call->samples;
    tally.samples += static_cast<std::uint64_t>(samples);
    if (config_.on_batch) config_.on_batch(slice, *run.members.front()->model, samples, run.size, took);
    if (run.members.front()->background == 0) {
      ServiceTally& service = services_[run.members.front()->model->service.index()];
      ++service.batches;
      BatchTally& by_size = service.by_batch_size[samples];
      ++by_size.count;
      by_size.compute_ns += took.count();
    }
  } else {
    turned_away = run.turned_away > Duration::zero();
    if (!turned_away) ++tally.failures;
    if (config_.on_failure && !turned_away) {
      config_.on_failure(slice, *run.members.front()->model, run.members.size(), run.failure);
    }
    fail_members(run, run.failure);
  }
  recorded_->on_batch_done({slice, batch, ok, turned_away});
}

// The reason stays with requests that run again, in case that there is no time for it after all.
void LiveWorld::fail_members(Run& run, const std::string& reason) {
  for (Call* call : run.members) {
    call->failure = reason;
    call->turned_away = run.turned_away;
  }
  run.failure.clear();
  run.turned_away = {};
}

// A restart was asked for by the scheduler, or by the re-cutting of a device, whose slices it does not know yet.
void LiveWorld::restarted(SliceId slice, bool ok) {
  if (ok) std::erase(starting_, slice);
  const auto warming = std::ranges::find(warming_, slice);
  if (warming == warming_.end()) {
    --restarting_;
    return recorded_->on_restarted(slice, ok);
  }
  warming_.erase(warming);
  if (!ok) warming_failed_.push_back(slice);
  if (warming_.empty()) finish_reshape();
}

void LiveWorld::restart(SliceId slice) {
  Run& run = run_of(slice);
  if (run.busy) {
    ++slices_[slice.index()].failures;
    fail_members(run, run.failure.empty() ? "the slice did not answer in time" : std::string(run.failure));
  }
  run.busy = false;
  ++slices_[slice.index()].restarts;
  ++restarting_;
  if (run.executor->restart()) schedule(now_, EventKind::restarted, slice.value(), 0);
}

// Slices that the plan no longer has give up what they hold; those that it brings are made ready, and then the device
// is.
void LiveWorld::reshape(DeviceId device, const Layout&) {
  let_go();
  reshaping_ = device;
  warming_failed_.clear();
  const auto& slices = scheduler().state().slices;
  for (std::uint32_t i = 0; i < slices.size(); ++i) {
    if (slices[i].place.device != device || slices[i].status != sched::SliceStatus::planned) continue;
    engines::Executor& executor = *run_of(SliceId(i)).executor;
    if (!executor.ready() && !executor.restart()) warming_.push_back(SliceId(i));
  }
  if (warming_.empty()) finish_reshape();
}

void LiveWorld::finish_reshape() {
  schedule(now_, EventKind::reshaped, reshaping_->value(), 0);
  reshaping_.reset();
}

// A slice that did not get ready is one that was lost: the others of the device serve, and it is started again and
// again until it is ready or another plan comes.
void LiveWorld::reshaped(DeviceId device) {
  const std::vector<SliceId> failed = std::exchange(warming_failed_, {});
  recorded_->on_reshaped(device, true);
  for (const SliceId slice : failed) {
    Run& run = run_of(slice);
    if (run.busy) run.failure = "the slice is not ready";
    recorded_->on_slice_lost(slice);
  }
}

void LiveWorld::let_go() {
  const auto& slices = scheduler().state().slices;
  for (std::size_t i = 0; i < slices.size() && i < runs_.size(); ++i) {
    if (slices[i].status == sched::SliceStatus::gone) runs_[i].executor.reset();
  }
  std::erase_if(starting_, [&](SliceId slice) { return slices[slice.index()].status == sched::SliceStatus::gone; });
}

void LiveWorld::recall(SliceId slice) { schedule(now_, EventKind::returned, slice.value(), 0); }

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

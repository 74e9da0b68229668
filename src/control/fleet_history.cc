#include "control/fleet_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sched/background.h"
#include "sched/fair_share.h"

namespace tangram::control {
namespace {

constexpr Duration kMinute = std::chrono::seconds(60);
constexpr Duration kQuarter = std::chrono::seconds(15);
// Half of the memory is for frames, the other half for the stories of requests.
constexpr std::size_t kStoriesShare = 2;
// Two for each move. With 7,000 slices they take 200 MB at most, with a hundred 3 MB.
constexpr std::size_t kFacesMax = 128;

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a.
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash | 1;  // Zero means that there is no name.
}

std::vector<ServiceTotals> totals_of(const FleetFrame* frame) {
  std::vector<ServiceTotals> list;
  if (frame == nullptr) return list;
  for (const auto& service : frame->services) list.push_back(service.totals);
  return list;
}

}  // namespace

std::string_view to_string(SliceUse use) {
  switch (use) {
    case SliceUse::idle: return "idle";
    case SliceUse::busy: return "busy";
    case SliceUse::lent: return "lent";
    case SliceUse::cutting: return "cutting";
    case SliceUse::lost: return "lost";
  }
  return "";
}

FleetHistory::FleetHistory(FleetHistoryOptions options) : options_(std::move(options)) {
  const std::size_t stories = options_.bytes_max / kStoriesShare / sizeof(RequestStory);
  troubled_.max = std::max<std::size_t>(stories / 2, 16);
  served_.max = std::max<std::size_t>(stories / 2, 16);
}

// ---- Events ----

void FleetHistory::on_event(const sched::Scheduler& scheduler, TimePoint now) { catch_up(scheduler, now); }

FleetHistory::ServiceMemory& FleetHistory::memory_of(ServiceId service) {
  if (service.index() >= services_.size()) services_.resize(service.index() + 1);
  return services_[service.index()];
}

void FleetHistory::on_arrival(const Request& request) {
  if (sched::is_background(request)) return;
  ServiceMemory& memory = memory_of(request.service);
  ++memory.totals.arrived;
  const auto& deployment = scheduler_->state().deployment;
  const auto bucket = deployment.services[sched::queue_of(deployment, request.service).index()].bucket_of(request.size);
  if (bucket >= memory.by_bucket.size()) memory.by_bucket.resize(bucket + 1, 0);
  ++memory.by_bucket[bucket];
}

void FleetHistory::end_run(SliceId slice) {
  const sched::SliceState& state = scheduler_->state().slices[slice.index()];
  if (state.status != sched::SliceStatus::busy) return;
  if (slice.index() >= busy_ns_.size()) busy_ns_.resize(slice.index() + 1, 0);
  busy_ns_[slice.index()] += (now_ - state.started).count();
}

void FleetHistory::on_batch_done(const sched::BatchDone& done) {
  if (done.slice.index() >= scheduler_->state().slices.size()) return;
  if (scheduler_->state().slices[done.slice.index()].batch == done.batch) end_run(done.slice);
}

// At the very start nothing was lost: a world whose slices must load their models first reports them so.
void FleetHistory::on_slice_lost(SliceId slice) {
  end_run(slice);
  if (slice.index() >= starting_.size()) starting_.resize(slice.index() + 1, false);
  if (now_ == kTimeZero) {
    starting_[slice.index()] = true;
  } else if (!starting_[slice.index()]) {
    marks_.lost(context(), slice);
  }
}

void FleetHistory::on_restarted(SliceId slice, bool ok) {
  if (ok && slice.index() < starting_.size()) starting_[slice.index()] = false;
  marks_.restarted(context(), slice, ok);
}

void FleetHistory::on_reshaped(DeviceId device, bool ok) {
  if (!ok) marks_.device_failed(context(), device);
}

// The faces change when the event has been handled, so they are taken before the next one.
void FleetHistory::on_plan_ready(const sched::Deployment& next) {
  marks_.plan_begins(context(), next, std::exchange(reason_, {}));
  faces_stale_ = true;
  moving_ = true;
  for (auto& service : services_) service.by_bucket.clear();  // The next plan has other buckets.
}

void FleetHistory::on_returned(SliceId slice) { marks_.returned(context(), slice); }

// ---- Actions ----

void FleetHistory::launched(const sched::Batch&) {}

// Asked for between two events: the frames up to here are due first.
void FleetHistory::lent(SliceId slice, TimePoint now) {
  if (scheduler_ == nullptr) return;
  now_ = std::max(now_, now);
  marks_.lent(context(), slice);
}

void FleetHistory::recalled(SliceId slice, TimePoint now) {
  if (scheduler_ == nullptr) return;
  now_ = std::max(now_, now);
  marks_.recalled(context(), slice);
}

void FleetHistory::note_latency(ServiceMemory& memory, Duration took) {
  const std::int64_t quarter = now_.time_since_epoch() / kQuarter;
  if (quarter != quarter_) {
    // The quarters in between had no answer; what they would have replaced is older than a minute.
    const std::int64_t passed = std::min<std::int64_t>(quarter - quarter_, 4);
    for (std::int64_t i = 0; i < passed; ++i) {
      for (auto& service : services_) service.latencies[static_cast<std::size_t>((quarter - i) % 4)] = {};
    }
    quarter_ = quarter;
  }
  memory.latencies[static_cast<std::size_t>(quarter % 4)].add(
      static_cast<std::uint64_t>(std::max<std::int64_t>(took.count(), 0)));
}

RequestStory& FleetHistory::Stories::add(RequestStory story) {
  if (ring.size() < max) {
    ring.push_back(story);
    next = ring.size() % max;
    return ring.back();
  }
  RequestStory& place = ring[next];
  place = story;
  next = (next + 1) % max;
  return place;
}

void FleetHistory::resolved(const Request& request, const Outcome& outcome, const sched::Batch* batch) {
  last_story_ = nullptr;
  if (sched::is_background(request)) return;
  ServiceMemory& memory = memory_of(request.service);
  ++memory.totals.outcomes[index_of(outcome.kind)];
  if (outcome.kind == OutcomeKind::rejected) {
    ++memory.totals.rejected[index_of(outcome.reason)];
    const bool never = outcome.reason == RejectReason::too_large ||
                       (outcome.reason == RejectReason::too_late && !scheduler_->could_be_in_time(request));
    if (never) ++memory.totals.impossible;
  }
  RequestStory story;
  story.id = request.id;
  story.service = request.service;
  story.queue = sched::queue_of(scheduler_->state().deployment, request.service);
  story.outcome = outcome.kind;
  story.reason = outcome.reason;
  story.samples = request.samples;
  story.size = request.size;
  story.arrival = request.arrival;
  story.deadline = request.deadline;
  story.ended = now_;
  story.earliest = outcome.earliest;
  story.waiting = static_cast<std::uint32_t>(scheduler_->waiting_count());
  if (batch != nullptr) {
    story.padded = batch->padded_size;
    story.batch_samples = batch->samples;
    story.slice = batch->slice;
    story.batch = batch->id;
    story.launched = now_ - batch->took;
    story.predicted = batch->predicted;
    memory.totals.took_ns += batch->took.count();
    memory.totals.predicted_ns += batch->predicted.count();
  }
  if (outcome.kind == OutcomeKind::served || outcome.kind == OutcomeKind::late) {
    note_latency(memory, now_ - request.arrival);
  }
  last_story_ = &(outcome.kind == OutcomeKind::served ? served_ : troubled_).add(story);
}

void FleetHistory::note_name(std::string_view name) {
  if (last_story_ != nullptr && !name.empty()) last_story_->name_hash = hash_of(name);
}

void FleetHistory::ended_unseen(const Request& request, const Outcome& outcome, TimePoint now) {
  if (scheduler_ == nullptr || sched::is_background(request)) return;
  catch_up(*scheduler_, now);
  ++memory_of(request.service).totals.arrived;
  resolved(request, outcome, nullptr);
}

// ---- Frames ----

MarkContext FleetHistory::context() const {
  TANGRAM_CHECK(scheduler_ != nullptr && !faces_.empty(), "an event came before this action");
  MarkContext at;
  at.now = now_;
  at.frame = next_number_;
  at.state = &scheduler_->state();
  at.faces = &faces_.back();
  for (const auto& service : services_) {
    at.totals.push_back(&service.totals);
    at.by_bucket.push_back(&service.by_bucket);
  }
  return at;
}

void FleetHistory::take_faces(const sched::Scheduler& scheduler) {
  FleetFaces faces = faces_of(scheduler.state(), options_.prices);
  faces.number = faces_.empty() ? 0 : faces_.back().number + 1;
  faces.at = now_;
  if (services_.size() < faces.services.size()) services_.resize(faces.services.size());
  faces_.push_back(std::move(faces));
  faces_stale_ = false;
  if (faces_.size() <= kFacesMax) return;
  // What was shown by the oldest can be shown no longer.
  faces_.pop_front();
  while (!frames_.empty() && frames_.front().faces < faces_.front().number) {
    bytes_ -= frames_.front().bytes();
    frames_.pop_front();
  }
}

// Between two events nothing changes but the time, so that of several frames that are due only the first and the last
// say something: what was until now, and what is.
void FleetHistory::catch_up(const sched::Scheduler& scheduler, TimePoint now, bool whole) {
  scheduler_ = &scheduler;
  if (faces_.empty()) {
    now_ = now;
    take_faces(scheduler);
    add_frame(scheduler, now);
    return;
  }
  const bool ended = moving_ && !scheduler.moving();
  if (faces_stale_ || ended) {
    if (ended) {
      moving_ = false;
      marks_.plan_ended(context());
    }
    take_faces(scheduler);
  }
  if (now < next_frame_ && !whole) {
    now_ = std::max(now_, now);
    return;
  }
  // What happened at the very instant of the newest frame is not in it.
  if (whole && frames_.back().at == now) {
    bytes_ -= frames_.back().bytes();
    frames_.pop_back();
    return add_frame(scheduler, now);
  }
  const TimePoint first = next_frame_;
  if (first <= now) add_frame(scheduler, first);
  const TimePoint last = whole ? now : first + options_.interval * ((now - first) / options_.interval);
  if (last > first && last > frames_.back().at) add_frame(scheduler, last);
  now_ = std::max(now_, now);
}

SliceSample FleetHistory::sample_of(const sched::State& state, std::uint32_t index, TimePoint at) const {
  const sched::SliceState& slice = state.slices[index];
  SliceSample sample{.slice = SliceId(index)};
  sample.busy_ns = index < busy_ns_.size() ? busy_ns_[index] : 0;
  switch (slice.status) {
    case sched::SliceStatus::idle: break;
    case sched::SliceStatus::busy:
      sample.use = SliceUse::busy;
      sample.busy_ns += std::max<std::int64_t>((at - slice.started).count(), 0);
      sample.running = slice.batch_service;
      break;
    case sched::SliceStatus::planned: sample.use = SliceUse::cutting; break;
    case sched::SliceStatus::restarting:
      sample.use = index < starting_.size() && starting_[index] ? SliceUse::cutting : SliceUse::lost;
      break;
    case sched::SliceStatus::lent:
    case sched::SliceStatus::recalling: sample.use = SliceUse::lent; break;
    case sched::SliceStatus::gone: break;
  }
  return sample;
}

FleetFrame FleetHistory::frame_of(const sched::Scheduler& scheduler, TimePoint at) {
  const sched::State& state = scheduler.state();
  FleetFrame frame;
  frame.number = next_number_++;
  frame.at = at;
  frame.faces = faces_.back().number;
  frame.moving = scheduler.moving();
  frame.slices.reserve(faces_.back().slices.size());
  for (const auto& face : faces_.back().slices) {
    if (state.slices[face.id.index()].status == sched::SliceStatus::gone) continue;
    frame.slices.push_back(sample_of(state, face.id.value(), at));
  }
  frame.services.resize(services_.size());
  for (const auto& lane : state.lanes) {
    frame.services[lane.service.index()].waiting += static_cast<std::uint32_t>(lane.queue.count());
  }
  for (const auto& slice : state.slices) {
    for (const auto* w = slice.bound.front(); w != nullptr; w = w->next) {
      ++frame.services[w->request.service.index()].waiting;
    }
  }
  for (std::size_t s = 0; s < services_.size(); ++s) {
    ServiceSample& sample = frame.services[s];
    sample.totals = services_[s].totals;
    sample.slices = s < state.services.size() ? state.services[s].slices : 0;
    QuantileSketch minute;
    for (const auto& quarter : services_[s].latencies) minute.merge(quarter);
    const auto ms = [&](double q) { return static_cast<float>(static_cast<double>(minute.quantile(q)) * 1e-6); };
    sample.p50_ms = ms(0.5);
    sample.p95_ms = ms(0.95);
    sample.p99_ms = ms(0.99);
  }
  return frame;
}

void FleetHistory::add_frame(const sched::Scheduler& scheduler, TimePoint at) {
  now_ = std::max(now_, at);
  // Answers of more than a minute ago are not of the last minute, even if none came since.
  const std::int64_t quarter = now_.time_since_epoch() / kQuarter;
  if (quarter >= quarter_ + 4) {
    for (auto& service : services_) service.latencies = {};
  }
  const FleetFrame* minute_ago = frame_at(at - std::min<Duration>(kMinute, at.time_since_epoch()));
  const FleetFrame* last = frames_.empty() ? nullptr : &frames_.back();
  const auto span = [&](const FleetFrame* before) {
    return before == nullptr ? at.time_since_epoch() : at - before->at;
  };
  marks_.look(context(), totals_of(minute_ago), span(minute_ago), totals_of(last), span(last));
  frames_.push_back(frame_of(scheduler, at));
  bytes_ += frames_.back().bytes();
  next_frame_ = add_saturating(at, options_.interval);
  thin();
}

// The newest frame and the oldest stay. Where all of the time becomes coarser, so does what is still to come.
void FleetHistory::thin() {
  const std::size_t bytes_max = options_.bytes_max / kStoriesShare;
  if ((bytes_ <= bytes_max && frames_.size() <= options_.frames_max) || frames_.size() < 8) return;
  const std::size_t end = options_.keep_recent ? frames_.size() / 2 : frames_.size() - 1;
  std::deque<FleetFrame> kept;
  for (std::size_t i = 0; i < frames_.size(); ++i) {
    if (i > 0 && i < end && i % 2 == 1) {
      bytes_ -= frames_[i].bytes();
    } else {
      kept.push_back(std::move(frames_[i]));
    }
  }
  frames_ = std::move(kept);
  if (!options_.keep_recent) {
    options_.interval *= 2;
    next_frame_ = add_saturating(frames_.back().at, options_.interval);
  }
}

// ---- Reading ----

const FleetFaces& FleetHistory::faces_at(const FleetFrame& frame) const {
  const auto found = std::ranges::lower_bound(faces_, frame.faces, {}, &FleetFaces::number);
  return found == faces_.end() ? faces_.back() : *found;
}

const FleetFrame* FleetHistory::frame_at(TimePoint when) const {
  const auto after = std::ranges::upper_bound(frames_, when, {}, &FleetFrame::at);
  return after == frames_.begin() ? nullptr : &*std::prev(after);
}

ShareInTime FleetHistory::in_time(const FleetFrame& frame, ServiceId service, std::optional<Duration> span) const {
  if (service.index() >= frame.services.size()) return {};
  ServiceTotals totals = frame.services[service.index()].totals;
  if (span && *span < frame.at.time_since_epoch()) {
    const FleetFrame* before = frame_at(frame.at - *span);
    if (before != nullptr && service.index() < before->services.size()) {
      totals = totals - before->services[service.index()].totals;
    }
  }
  if (totals.counted() == 0) return {};
  return {static_cast<double>(totals.of(OutcomeKind::served)) / static_cast<double>(totals.counted()),
          totals.counted()};
}

double FleetHistory::arrivals_per_s(const FleetFrame& frame, ServiceId service) const {
  if (service.index() >= frame.services.size()) return 0;
  const Duration here = frame.at.time_since_epoch();
  const FleetFrame* before = here > kMinute ? frame_at(frame.at - kMinute) : nullptr;
  const Duration span = before == nullptr ? here : frame.at - before->at;
  std::uint64_t arrived = frame.services[service.index()].totals.arrived;
  if (before != nullptr && service.index() < before->services.size()) {
    arrived -= before->services[service.index()].totals.arrived;
  }
  return span > Duration::zero() ? static_cast<double>(arrived) / to_seconds(span) : 0;
}

double FleetHistory::busy_share(const FleetFrame& frame, const SliceSample& sample, Duration span) const {
  const Duration here = frame.at.time_since_epoch();
  const FleetFrame* before = here > span ? frame_at(frame.at - span) : nullptr;
  std::int64_t busy_ns = sample.busy_ns;
  const Duration passed = before == nullptr ? here : frame.at - before->at;
  if (before != nullptr) {
    const auto found = std::ranges::lower_bound(before->slices, sample.slice, {}, &SliceSample::slice);
    if (found != before->slices.end() && found->slice == sample.slice) busy_ns -= found->busy_ns;
  }
  if (passed <= Duration::zero()) return 0;
  return std::clamp(static_cast<double>(busy_ns) / static_cast<double>(passed.count()), 0.0, 1.0);
}

std::optional<double> FleetHistory::cost_per_hour(const FleetFaces& faces) {
  double sum = 0;
  for (std::size_t d = 0; d < faces.devices.size(); ++d) {
    const bool used = std::ranges::any_of(
        faces.slices, [&](const SliceFace& slice) { return slice.device == d && !slice.services.empty(); });
    if (used) sum += faces.devices[d].price_per_hour;
  }
  return sum > 0 ? std::optional(sum) : std::nullopt;
}

const RequestStory* FleetHistory::find_request(RequestId id) const {
  for (const auto* stories : {&troubled_, &served_}) {
    for (const auto& story : stories->ring) {
      if (story.id == id) return &story;
    }
  }
  return nullptr;
}

// A client may use a name again: the newest is meant.
const RequestStory* FleetHistory::find_request(std::string_view name) const {
  const std::uint64_t hash = hash_of(name);
  const RequestStory* found = nullptr;
  for (const auto* stories : {&troubled_, &served_}) {
    for (const auto& story : stories->ring) {
      if (story.name_hash == hash && (found == nullptr || story.ended > found->ended)) found = &story;
    }
  }
  return found;
}

std::vector<const RequestStory*> FleetHistory::last_troubled(std::size_t count) const {
  std::vector<const RequestStory*> list;
  const std::size_t size = troubled_.ring.size();
  for (std::size_t i = 0; i < std::min(count, size); ++i) {
    // The ring is full, or its next place is behind the newest.
    list.push_back(&troubled_.ring[(troubled_.next + 2 * size - 1 - i) % size]);
  }
  return list;
}

std::string FleetHistory::needs_of(const RequestStory& story) const {
  const Duration left = story.deadline - story.arrival;
  switch (story.outcome) {
    case OutcomeKind::served:
      return fmt::format("Nothing: it was answered {:.3g} ms before its deadline.",
                         to_milliseconds(story.deadline - story.ended));
    case OutcomeKind::late:
      return fmt::format(
          "It began {:.3g} ms before its deadline and ran for {:.3g} ms (expected: {:.3g} ms): to be in "
          "time, it had to start {:.3g} ms earlier.",
          to_milliseconds(story.deadline - story.launched), to_milliseconds(story.ended - story.launched),
          to_milliseconds(story.predicted), to_milliseconds(story.ended - story.deadline));
    case OutcomeKind::failed: return "A slice that runs it to its end: its batch failed, or its slice was lost.";
    case OutcomeKind::abandoned: return "A caller that waits for the answer.";
    case OutcomeKind::rejected: break;
  }
  switch (story.reason) {
    case RejectReason::too_late:
      if (story.earliest == kTimeNever) {
        return fmt::format("More time than the {:.4g} ms that it brought, or a slice that is free earlier.",
                           to_milliseconds(left));
      }
      return fmt::format(
          "{:.4g} ms more: the first answer could be ready {:.4g} ms after its arrival, and its deadline "
          "was after {:.4g} ms.",
          to_milliseconds(story.earliest - story.deadline), to_milliseconds(story.earliest - story.arrival),
          to_milliseconds(left));
    case RejectReason::queue_full:
      return "Room in the queue: the limit of waiting requests (--requests-max) was reached.";
    case RejectReason::too_large:
      return fmt::format("A bucket of the plan for size {} with {} samples: none takes it.", story.size, story.samples);
    case RejectReason::no_capacity: return "A slice that serves it: none did at that time.";
    case RejectReason::over_rate:
      return "A rate within what its shared slices have room for (rate_max_per_s in the plan).";
    case RejectReason::none: break;
  }
  return "";
}

}  // namespace tangram::control

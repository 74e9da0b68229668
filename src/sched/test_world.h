// A World for tests, in virtual time, that trusts nobody.
//
// It answers what the scheduler asks and keeps books of its own: who arrived, what runs where, how each device is cut.
// Everything that breaks a promise of World becomes a complaint, and so does an invariant of the scheduler's memory
// that does not hold after an event; else that memory is only asked where a slice lies. Events of one instant come as
// completions, then arrivals, then wakes, each in the order of their making.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/layout.h"
#include "sched/scheduler.h"
#include "sched/world.h"

namespace tangram::sched::testing {

// A batch as it ran.
struct BatchRun {
  std::uint64_t id = 0;
  SliceId slice;
  ServiceId service;
  std::uint32_t bucket = 0;
  std::int64_t padded_size = 0;
  std::int32_t samples = 0;
  Duration predicted{};
  TimePoint start;
  TimePoint end = kTimeNever;  // kTimeNever: it was given up.
  bool ok = false;
  std::vector<std::uint64_t> members;
  bool stop_asked = false;
};

// A request and how it ended.
struct RequestRun {
  Request request;
  std::optional<Outcome> outcome;
  TimePoint resolved_at;
  bool running = false;
  int runs = 0;
  bool failed = false;     // It was in a batch that was answered with a failure.
  bool abandoned = false;  // Its caller went before it was resolved.
};

class TestWorld final : public World {
 public:
  // How reality answers. What is left out happens as predicted, or at once and without fault.
  struct Reality {
    // How long a batch takes; nothing: it is never answered. Left out: as long as the scheduler predicted.
    std::function<std::optional<Duration>(const Batch&)> run_time;
    std::function<bool(const Batch&)> succeeds;
    std::function<bool(DeviceId)> reshapes;
    std::function<bool(SliceId)> restarts;
    // The most samples that may run on a slice in one batch at this padded size; left out: not judged.
    std::function<std::int64_t(const Place&, ServiceId, std::int64_t padded_size)> samples_max;
    bool stops = true;  // Batches end early also where they need not.
    Duration stop_time = std::chrono::milliseconds(10);
    Duration restart_time = std::chrono::seconds(5);
    Duration reshape_time = std::chrono::seconds(6);
    Duration recall_time = std::chrono::seconds(1);
  };

  enum class When : std::uint8_t { completion, arrival, wake };

  explicit TestWorld(Reality reality) : reality_(std::move(reality)) {}

  void attach(Scheduler& scheduler) {
    scheduler_ = &scheduler;
    for (const auto& device : scheduler.state().deployment.devices) layouts_.push_back(device.layout);
  }

  // Something of the test's own, e.g. to lend a slice at 5 ms.
  void at(TimePoint when, std::function<void()> action) { push(when, When::arrival, std::move(action)); }

  // The request arrives at its time of arrival. Ids are handed out in the order of the calls.
  std::uint64_t arrive(Request request) {
    request.id = RequestId(requests_.size());
    requests_.push_back({request, std::nullopt, {}, false, 0});
    records_.push_back(kNoRecord);
    push(request.arrival, When::arrival, [this, request] {
      note(fmt::format("arrival r{}", request.id.value()));
      arrived_[request.id.value()] = true;
      records_[request.id.value()] = scheduler_->on_arrival(request);
    });
    arrived_.push_back(false);
    return request.id.value();
  }

  // Handles events until none is left, or until `until`.
  void run(TimePoint until = kTimeNever) {
    while (!events_.empty() && std::get<0>(events_.begin()->first) <= until) {
      const auto first = events_.begin();
      const auto [when, lane, sequence] = first->first;
      const auto action = std::move(first->second);
      events_.erase(first);
      expect(when >= now_, "virtual time went back");
      now_ = when;
      action();
      const std::string broken = scheduler_->state().check();
      expect(broken.empty(), broken);
      if (events_handled_++ > kEventsMax) {
        expect(false, "the run does not end");
        return;
      }
    }
  }

  // Complaints that can only be made when nothing is left to happen.
  void judge_end() {
    for (const auto& run : requests_) {
      expect(run.outcome.has_value(), fmt::format("r{} was never resolved", run.request.id.value()));
    }
    for (const auto& [slice, state] : slices_) {
      expect(!state.lent && !state.recalling, fmt::format("slice {} was never returned", slice));
      expect(state.busy <= now_ - kTimeZero, fmt::format("slice {} was busy for longer than there was time", slice));
    }
    expect(scheduler_->outstanding_count() == 0, "the scheduler still holds a request");
    expect(scheduler_->waiting_count() == 0, "the scheduler still counts a request as waiting");
    expect(!scheduler_->moving(), "a plan is still being moved to");
  }

  const std::vector<BatchRun>& batches() const { return batches_; }
  const std::vector<RequestRun>& requests() const { return requests_; }
  const std::vector<std::string>& complaints() const { return complaints_; }
  const std::vector<std::string>& log() const { return log_; }
  std::uint64_t digest() const { return digest_; }
  std::uint64_t lent_count() const { return lent_count_; }
  std::uint64_t reshape_count() const { return reshape_count_; }
  std::uint64_t restart_count() const { return restart_count_; }
  bool keep_log = true;

  // The caller of a request has gone, whether or not the request has ended already.
  void abandon(std::uint64_t id) {
    note(fmt::format("abandoned r{}", id));
    const bool lives = arrived_[id] && !requests_[id].outcome;
    requests_[id].abandoned |= lives;
    scheduler_->on_abandoned(records_[id], RequestId(id));
    const RequestRun& run = requests_[id];
    expect(!lives || run.running || run.outcome.has_value(), fmt::format("r{} waits although nobody does", id));
  }

  // A slice breaks, whatever it does.
  void lose(SliceId slice) {
    note(fmt::format("lose slice {}", slice.value()));
    scheduler_->on_slice_lost(slice);
  }

  // World.
  TimePoint now() const override { return now_; }

  void wake_at(TimePoint when) override {
    if (wake_) events_.erase(*wake_);
    wake_.reset();
    if (when == kTimeNever) return;
    wake_ = push(std::max(when, now_), When::wake, [this] {
      wake_.reset();
      scheduler_->on_wake();
    });
  }

  void launch(const Batch& batch) override {
    SliceBook& slice = slices_[batch.slice.value()];
    judge_slice(batch, slice);
    judge_members(batch);
    BatchRun run{batch.id.value(),
                 batch.slice,
                 batch.service,
                 batch.bucket,
                 batch.padded_size,
                 batch.samples,
                 batch.predicted,
                 now_,
                 kTimeNever,
                 false,
                 {},
                 false};
    for (const Request* member : batch.members) run.members.push_back(member->id.value());
    note(fmt::format("launch b{} slice {} padded {} samples {}: r{}", run.id, batch.slice.value(), batch.padded_size,
                     batch.samples, fmt::join(run.members, " r")));
    const std::size_t index = batches_.size();
    batches_.push_back(std::move(run));
    slice.running = index;
    const auto takes = reality_.run_time ? reality_.run_time(batch) : std::optional(batch.predicted);
    const bool ok = !reality_.succeeds || reality_.succeeds(batch);
    if (takes) {
      push(now_ + *takes, When::completion, [this, index, ok] { complete(index, ok); });
    }
  }

  void stop(SliceId id, bool must) override {
    SliceBook& slice = slices_[id.value()];
    expect(slice.running.has_value(), fmt::format("slice {} runs nothing and is asked to stop", id.value()));
    if (!slice.running) return;
    note(fmt::format("stop slice {}", id.value()));
    batches_[*slice.running].stop_asked = true;
    if (!must && !reality_.stops) return;
    push(now_ + reality_.stop_time, When::completion, [this, index = *slice.running] { complete(index, false, true); });
  }

  void restart(SliceId id) override {
    SliceBook& slice = slices_[id.value()];
    expect(!slice.restarting, fmt::format("slice {} is asked twice to restart", id.value()));
    expect(!slice.lent, fmt::format("slice {} is lent and asked to restart", id.value()));
    note(fmt::format("restart slice {}", id.value()));
    ++restart_count_;
    if (slice.running) {
      slice.busy += now_ - batches_[*slice.running].start;
      for (const auto member : batches_[*slice.running].members) requests_[member].running = false;
      slice.running.reset();
    }
    slice.restarting = true;
    push(now_ + reality_.restart_time, When::completion, [this, id] {
      slices_[id.value()].restarting = false;
      const bool ok = !reality_.restarts || reality_.restarts(id);
      note(fmt::format("restarted slice {} {}", id.value(), ok ? "ok" : "failed"));
      scheduler_->on_restarted(id, ok);
    });
  }

  void reshape(DeviceId device, const Layout& target) override {
    const auto& known = scheduler_->state().deployment.devices[device.index()];
    if (layouts_.size() <= device.index()) layouts_.resize(device.index() + 1);
    expect(!reshaping_[device.value()], fmt::format("device {} is asked twice to be cut", device.value()));
    expect(why_invalid(known.geometry, target).empty(),
           fmt::format("device {}: {}", device.value(), why_invalid(known.geometry, target)));
    judge_drained(device, target);
    note(fmt::format("reshape device {} to {}", device.value(), to_string(known.geometry, target)));
    reshaping_[device.value()] = true;
    ++reshape_count_;
    push(now_ + reality_.reshape_time, When::completion, [this, device, target] {
      reshaping_[device.value()] = false;
      const bool ok = !reality_.reshapes || reality_.reshapes(device);
      note(fmt::format("reshaped device {} {}", device.value(), ok ? "ok" : "failed"));
      if (ok) layouts_[device.index()] = target;
      scheduler_->on_reshaped(device, ok);
    });
  }

  void lend(SliceId id) override {
    SliceBook& slice = slices_[id.value()];
    expect(!slice.running && !slice.restarting && !slice.lent, fmt::format("slice {} is not idle: lent", id.value()));
    note(fmt::format("lend slice {}", id.value()));
    slice.lent = true;
    ++lent_count_;
  }

  void recall(SliceId id) override {
    SliceBook& slice = slices_[id.value()];
    expect(slice.lent && !slice.recalling, fmt::format("slice {} is not lent, or was recalled", id.value()));
    note(fmt::format("recall slice {}", id.value()));
    slice.recalling = true;
    push(now_ + reality_.recall_time, When::completion, [this, id] {
      slices_[id.value()].lent = slices_[id.value()].recalling = false;
      note(fmt::format("returned slice {}", id.value()));
      scheduler_->on_returned(id);
    });
  }

  void resolve(const Request& request, const Outcome& outcome, const Batch* batch) override {
    const auto id = request.id.value();
    static constexpr const char* kNames[] = {"served", "late", "rejected", "failed", "abandoned"};
    note(fmt::format("resolve r{} {} {}", id, kNames[static_cast<std::size_t>(outcome.kind)],
                     static_cast<int>(outcome.reason)));
    if (id >= requests_.size() || !arrived_[id]) {
      expect(false, fmt::format("r{} was resolved and never arrived", id));
      return;
    }
    RequestRun& run = requests_[id];
    expect(!run.outcome.has_value(), fmt::format("r{} was resolved twice", id));
    expect(!run.running, fmt::format("r{} was resolved while it ran", id));
    const bool answered = outcome.kind == OutcomeKind::served || outcome.kind == OutcomeKind::late;
    expect(answered == (batch != nullptr), fmt::format("r{} was answered without a batch, or the reverse", id));
    if (answered) judge_answer(run, outcome, *batch);
    const bool rejected = outcome.kind == OutcomeKind::rejected;
    expect(rejected == (outcome.reason != RejectReason::none),
           fmt::format("r{} has a reason and was not rejected", id));
    expect(run.abandoned == (outcome.kind == OutcomeKind::abandoned),
           fmt::format("r{} is abandoned and its caller waits, or the reverse", id));
    run.outcome = outcome;
    run.resolved_at = now_;
    if (on_resolved) on_resolved(run);
  }
  // Told of each request that ends, e.g. to close a loop.
  std::function<void(const RequestRun&)> on_resolved;

  void note(const std::string& line) {
    const auto mix = [&](std::uint64_t value) { digest_ = (digest_ ^ value) * 0x100000001b3ULL; };
    mix(static_cast<std::uint64_t>(now_.time_since_epoch().count()));
    for (const char c : line) mix(static_cast<unsigned char>(c));
    if (keep_log) log_.push_back(fmt::format("{:.6f} {}", to_seconds(now_), line));
  }

 private:
  using Key = std::tuple<TimePoint, When, std::uint64_t>;
  static constexpr std::uint64_t kEventsMax = 50'000'000;
  static constexpr std::size_t kComplaintsMax = 10;

  struct SliceBook {
    std::optional<std::size_t> running;  // Index into batches_.
    bool restarting = false;
    bool lent = false;
    bool recalling = false;
    Duration busy{};
  };

  Key push(TimePoint when, When lane, std::function<void()> action) {
    const Key key{when, lane, sequence_++};
    events_.emplace(key, std::move(action));
    return key;
  }

  void expect(bool right, const std::string& complaint) {
    if (!right && complaints_.size() < kComplaintsMax) {
      complaints_.push_back(fmt::format("at {:.6f}: {}", to_seconds(now_), complaint));
    }
  }

  void judge_slice(const Batch& batch, const SliceBook& slice) {
    const auto id = batch.slice.value();
    expect(!slice.running, fmt::format("slice {} is used twice", id));
    expect(!slice.restarting, fmt::format("slice {} runs a batch while it restarts", id));
    expect(!slice.lent, fmt::format("slice {} runs a batch while it is lent", id));
    const Place& place = scheduler_->state().slices[batch.slice.index()].place;
    // Decks without layouts are made up by tests; where a device has one, the slice is part of it.
    const Layout& layout = layouts_[place.device.index()];
    if (layout.slices.empty() && layouts_made_up) return;
    expect(std::ranges::find(layout.slices, place.slice) != layout.slices.end(),
           fmt::format("slice {} is not cut now", id));
    for (const auto& [other, book] : slices_) {
      if (other == id || !book.running) continue;
      const Place& there = scheduler_->state().slices[other].place;
      const bool same_place = there.device == place.device && there.slice == place.slice;
      expect(!same_place || there.process != place.process, fmt::format("slices {} and {} are one", id, other));
    }
  }

  void judge_members(const Batch& batch) {
    expect(!batch.members.empty(), fmt::format("b{} is empty", batch.id.value()));
    std::int32_t samples = 0;
    const auto& service = scheduler_->state().deployment.services[batch.service.index()];
    for (const Request* member : batch.members) {
      const auto id = member->id.value();
      if (id >= requests_.size()) {
        expect(false, fmt::format("r{} runs and never arrived", id));
        continue;
      }
      RequestRun& run = requests_[id];
      expect(arrived_[id], fmt::format("r{} runs before it arrived", id));
      expect(!run.running, fmt::format("r{} runs twice at a time", id));
      expect(!run.outcome.has_value(), fmt::format("r{} runs after it was resolved", id));
      expect(member->queue == batch.service, fmt::format("r{} runs in a batch of another service", id));
      expect(!run.failed || batch.members.size() == 1,
             fmt::format("r{} was in a batch that failed and is not alone", id));
      expect(member->size <= batch.padded_size, fmt::format("r{} is larger than its batch is padded to", id));
      expect(service.padding != Padding::none || member->size == batch.members[0]->size,
             fmt::format("r{} shares a batch with another size though its service does not pad", id));
      samples += member->samples;
      run.running = true;
      expect(!run.abandoned, fmt::format("r{} runs for nobody", id));
      ++run.runs;
    }
    expect(samples == batch.samples, fmt::format("b{} does not count its samples", batch.id.value()));
    if (!reality_.samples_max) return;
    const Place& place = scheduler_->state().slices[batch.slice.index()].place;
    expect(samples <= reality_.samples_max(place, batch.service, batch.padded_size),
           fmt::format("b{} holds {} samples of padded size {}: over its limit", batch.id.value(), samples,
                       batch.padded_size));
  }

  void judge_drained(DeviceId device, const Layout& target) {
    for (const auto& [id, book] : slices_) {
      const Place& place = scheduler_->state().slices[id].place;
      if (place.device != device || !(book.running || book.lent)) continue;
      expect(std::ranges::find(target.slices, place.slice) != target.slices.end(),
             fmt::format("device {} is cut while slice {} is in use and does not stay", device.value(), id));
    }
  }

  void judge_answer(const RequestRun& run, const Outcome& outcome, const Batch& batch) {
    const auto id = run.request.id.value();
    const bool in_time = now_ <= run.request.deadline;
    expect(in_time == (outcome.kind == OutcomeKind::served), fmt::format("r{} is judged by another clock", id));
    const bool member = completing_ && completing_->id == batch.id.value() && completing_->ok &&
                        std::ranges::find(completing_->members, id) != completing_->members.end();
    expect(member, fmt::format("r{} was answered by a batch that did not end now", id));
  }

  void complete(std::size_t index, bool ok, bool stopped = false) {
    BatchRun& run = batches_[index];
    SliceBook& slice = slices_[run.slice.value()];
    if (slice.running != index) return;  // It was given up.
    slice.running.reset();
    slice.busy += now_ - run.start;
    run.end = now_;
    run.ok = ok;
    for (const auto member : run.members) {
      requests_[member].running = false;
      requests_[member].failed |= !ok && !stopped;
    }
    note(fmt::format("done b{} {}", run.id, ok ? "ok" : stopped ? "stopped" : "failed"));
    const BatchRun copy = run;
    completing_ = &copy;
    scheduler_->on_batch_done({copy.slice, BatchId(copy.id), ok, false, stopped});
    completing_ = nullptr;
  }

  Reality reality_;
  Scheduler* scheduler_ = nullptr;
  TimePoint now_;
  std::map<Key, std::function<void()>> events_;
  std::uint64_t sequence_ = 0;
  std::uint64_t events_handled_ = 0;
  std::optional<Key> wake_;
  std::map<std::uint32_t, SliceBook> slices_;
  std::vector<Layout> layouts_;
  std::map<std::uint32_t, bool> reshaping_;
  std::vector<RequestRun> requests_;
  std::vector<RecordNumber> records_;
  std::vector<bool> arrived_;
  std::vector<BatchRun> batches_;
  const BatchRun* completing_ = nullptr;
  std::vector<std::string> complaints_;
  std::vector<std::string> log_;
  std::uint64_t digest_ = 0xcbf29ce484222325ULL;
  std::uint64_t lent_count_ = 0;
  std::uint64_t reshape_count_ = 0;
  std::uint64_t restart_count_ = 0;

 public:
  bool layouts_made_up = false;  // Devices have no layout of their own: slices are taken as they come.
};

}  // namespace tangram::sched::testing

// A scheduler with a recorder around it, for simulated and for real time alike.
//
// Events enter by the on_ functions and actions leave through World as if nothing stood between. With a sink, both are
// written in the order in which they happen, together with what the scheduler starts from, so that replay() (replay.h)
// needs nothing else: it feeds the events to a new scheduler and must see the same actions, byte for byte.
//
// A watcher (watcher.h) is told the same as values. Without a sink and a watcher the scheduler talks to the World
// directly, and an event costs one comparison more.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "sched/recorder.h"
#include "sched/scheduler.h"

namespace tangram::sched {

class RecordedScheduler {
 public:
  // `world` and `watcher` outlive it. An empty sink records nothing; a null watcher is told nothing.
  RecordedScheduler(World& world, const Deployment& deployment, const SchedulerConfig& config, RecordingSink sink,
                    std::uint64_t bytes_max = kRecordingBytesMax, Watcher* watcher = nullptr)
      : recorder_(world, std::move(sink), bytes_max, watcher),
        watcher_(watcher),
        recording_(recorder_.on() || watcher != nullptr),
        scheduler_(recording_ ? recorder_ : world, deployment, config) {
    if (recording_) recorder_.write_head(deployment, config);
  }
  ~RecordedScheduler() {
    if (recording_) recorder_.write_end();
  }
  RecordedScheduler(const RecordedScheduler&) = delete;
  RecordedScheduler& operator=(const RecordedScheduler&) = delete;

  // Events, as the Scheduler has them.
  RecordNumber on_arrival(const Request& request) {
    RecordNumber record = kNoRecord;
    deliver([&] { record = scheduler_.on_arrival(request); },
            [&] {
              recorder_.write_arrival(request);
              tell([&](Watcher& watcher) { watcher.on_arrival(request); });
            });
    return record;
  }
  // The weight is written in millionths.
  void on_tenant(TenantId tenant, std::int64_t weight_ppm) {
    deliver([&] { scheduler_.on_tenant(tenant, 1e-6 * static_cast<double>(weight_ppm)); },
            [&] {
              recorder_.write_event("tenant", {tenant.value(), weight_ppm});
            });
  }
  // Records are numbered alike when the recording is replayed.
  void on_abandoned(RecordNumber record, RequestId request) {
    deliver([&] { scheduler_.on_abandoned(record, request); },
            [&] {
              recorder_.write_event("abandoned", {record, static_cast<std::int64_t>(request.value())});
            });
  }
  void on_batch_done(const BatchDone& done) {
    deliver([&] { scheduler_.on_batch_done(done); },
            [&] {
              recorder_.write_done(done);
              tell([&](Watcher& watcher) { watcher.on_batch_done(done); });
            });
  }
  void on_wake() {
    deliver([&] { scheduler_.on_wake(); }, [&] { recorder_.write_event("wake", {}); });
  }
  void on_slice_lost(SliceId slice) {
    deliver([&] { scheduler_.on_slice_lost(slice); },
            [&] {
              recorder_.write_event("lost", {slice.value()});
              tell([&](Watcher& watcher) { watcher.on_slice_lost(slice); });
            });
  }
  void on_restarted(SliceId slice, bool ok) {
    deliver([&] { scheduler_.on_restarted(slice, ok); },
            [&] {
              recorder_.write_event("restarted", {slice.value(), ok ? 1 : 0});
              tell([&](Watcher& watcher) { watcher.on_restarted(slice, ok); });
            });
  }
  void on_reshaped(DeviceId device, bool ok) {
    deliver([&] { scheduler_.on_reshaped(device, ok); },
            [&] {
              recorder_.write_event("reshaped", {device.value(), ok ? 1 : 0});
              tell([&](Watcher& watcher) { watcher.on_reshaped(device, ok); });
            });
  }
  bool on_correction(const CorrectionPlace& place, std::int64_t factor_ppb, std::int64_t spread_ppb) {
    bool known = false;
    deliver([&] { known = scheduler_.on_correction(place, factor_ppb, spread_ppb); },
            [&] {
              recorder_.write_event("correction",
                                    {static_cast<std::int64_t>(place.row), static_cast<std::int64_t>(place.bucket),
                                     place.samples_class, factor_ppb, spread_ppb});
            });
    return known;
  }
  void on_plan_ready(const Deployment& next) {
    deliver([&] { scheduler_.on_plan_ready(next); },
            [&] {
              recorder_.write_plan(next);
              tell([&](Watcher& watcher) { watcher.on_plan_ready(next); });
            });
  }
  void on_returned(SliceId slice) {
    deliver([&] { scheduler_.on_returned(slice); },
            [&] {
              recorder_.write_event("returned", {slice.value()});
              tell([&](Watcher& watcher) { watcher.on_returned(slice); });
            });
  }
  void on_ending() {
    deliver([&] { scheduler_.on_ending(); }, [&] { recorder_.write_event("ending", {}); });
  }

  // Training wants a slice, or inference wants it back. These are events, too, and may as well be called on the
  // Scheduler itself, as Lending does: the recorder knows them by the action that follows. A request that is not
  // granted causes none, changes nothing, and is not recorded.
  std::optional<SliceId> lend_idle(PoolId pool) { return scheduler_.lend_idle(pool); }
  bool lend(SliceId slice) { return scheduler_.lend(slice); }
  void recall(SliceId slice) { scheduler_.recall(slice); }

  Scheduler& scheduler() { return scheduler_; }
  const Scheduler& scheduler() const { return scheduler_; }
  // False without a sink, and from where the recording reached its limit.
  bool recording() const { return recorder_.on(); }

 private:
  template <typename Handle, typename Write>
  void deliver(const Handle& handle, const Write& write) {
    if (!recording_) [[likely]]
      return handle();
    if (watcher_ != nullptr) watcher_->on_event(scheduler_, recorder_.now());
    write();
    recorder_.set_handling(true);
    handle();
    recorder_.set_handling(false);
  }

  template <typename Tell>
  void tell(const Tell& what) {
    if (watcher_ != nullptr) what(*watcher_);
  }

  Recorder recorder_;
  Watcher* const watcher_;
  const bool
      recording_;  // There was a sink or a watcher at the start: the recorder is between the scheduler and the World.
  Scheduler scheduler_;
};

}  // namespace tangram::sched

// The event loop of a simulation, which is also the World of the scheduler.
//
// The loop takes the earliest event, sets the virtual clock to it and calls the scheduler, which answers with actions
// (launch, wake_at, reshape, ...). Each action that promises an answer pushes the one event that will bring it.
// Example: launch() at 10 ms of a batch that takes 7 ms pushes kBatchDone at 17 ms. Time is never read from a clock,
// and random numbers come from named streams of one seed, so the same configuration gives the same bytes.
//
// Invariants: virtual time never goes back; a slice runs at most one batch; every action that promises an answer has
// pushed exactly one event, except for a batch that a fault makes stuck. Counting and drawing is left to the parts: see
// request_feed.h, offline_rows.h, disturbances.h, plan_feed.h and metrics_recorder.h.

#include "sim/simulation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "sched/background.h"
#include "sched/decision_log.h"
#include "sched/recorded_scheduler.h"
#include "sim/event_kind.h"
#include "sim/event_queue.h"
#include "sim/metrics_recorder.h"
#include "sim/request_feed.h"

namespace tangram::sim {
namespace {

// A plan that arrives while the scheduler still moves to another one is tried again after this.
constexpr Duration kPlanRetry = std::chrono::seconds(1);

// Progress is reported once per this many events. A power of two makes the test a mask instead of a division.
constexpr std::uint64_t kEventsPerReport = 0x10000;

RequestLimits request_limits(const SimulationConfig& config) {
  return {config.duration,   config.requests_max, config.warmup_requests,
          config.rate_scale, config.tenants,      config.first_tenant_factor};
}

// From the request to stop a batch to its end: a few operators of a network.
constexpr Duration kStopTime = std::chrono::milliseconds(10);

MetricsConfig metrics_config(const SimulationConfig& config) {
  return {config.tenants,        config.warmup_requests,      config.duration,
          config.timeline_steps, config.batches_recorded_max, config.parts};
}

// The simulated World. It has more than thirty functions because each action of the World and each kind of event needs
// one; everything that can be separated from the clock and the event queue is in the parts.
//
// Functions marked cold run rarely. The compiler places their code away from the hot path, which keeps the instruction
// cache for the functions that run for every request.
class Simulation final : public sched::World {
 public:
  // The log of decisions is made from the recording and needs all of it, so only without a log is its size limited.
  Simulation(const sched::Deployment& deployment, const Workload& workload, const SimulationConfig& config)
      : config_(config),
        rng_(config.seed),
        requests_(workload, request_limits(config), rng_, arrivals_),
        rows_(config.background, workload, rng_, arrivals_),
        disturbances_(config.noise, config.faults, rng_),
        plans_(config.plan_changes, config.controller, workload.services.size()),
        recorded_(*this, deployment, config.scheduler, sink(),
                  config.log_decisions ? UINT64_MAX : sched::kRecordingBytesMax, config.watcher),
        metrics_(scheduler().state(), metrics_config(config)) {
    TANGRAM_CHECK(deployment.services.size() == workload.services.size(), "a deployment is compiled from its workload");
    runs_.resize(deployment.places.size());
    result_.cold_starts.resize(deployment.services.size(), 0);
  }

  SimulationResult run() {
    begin();
    while ((!events_.empty() || !arrivals_.empty()) && !finished()) {
      const Event event = next_event();
      TANGRAM_CHECK(event.when >= now_, "virtual time never goes back");
      now_ = event.when;
      ++result_.events;
      handle(event);
      if (result_.events % kEventsPerReport == 0 && !report_progress()) break;
    }
    return finish();
  }

  // World.
  TimePoint now() const override { return now_; }

  // Only the last wake counts. Removing the older one from the heap would be a search, so it stays there with an
  // outdated serial number and is ignored when it comes.
  void wake_at(TimePoint when) override {
    ++wake_serial_;
    if (when != kTimeNever) events_.push(std::max(when, now_), EventLane::wake, kWake, 0, wake_serial_);
  }

  void launch(const sched::Batch& batch) override {
    // A plan change can start batches on new slices before on_plan_ready() returns, so room is made on demand.
    if (batch.slice.index() >= runs_.size()) grow_slices(batch.slice.index() + 1);
    SliceRun& run = runs_[batch.slice.index()];
    TANGRAM_CHECK(run.batch == 0, "a slice runs one batch at a time");
    run = {batch.id.value(), now_, sched::is_background(*batch.members.front())};
    const sched::PoolService& entry =
        entry_of(scheduler().state().slices[batch.slice.index()].place.pool, batch.service);
    const std::int64_t table_ns = entry.latency.mean_ns(batch.bucket, batch.samples);
    const RunDraw drawn = disturbances_.draw_run(table_ns);
    // A model that is not loaded is loaded first; its load takes as long as the plan says, without noise.
    if (batch.cold) [[unlikely]]
      ++result_.cold_starts[batch.service.index()];
    const Duration takes = batch.load + Duration(drawn.real_ns);
    // A stuck batch has no event. The scheduler detects it by its own time limit and restarts the slice.
    if (drawn.end != RunEnd::never) {
      events_.push(now_ + takes, EventLane::completion, drawn.end == RunEnd::done ? kBatchDone : kBatchFailed,
                   batch.slice.value(), batch.id.value());
    }
    metrics_.start(batch, {entry, table_ns, drawn.real_ns, now_});
  }

  // Its own completion may come before; whichever is second is ignored by complete().
  [[gnu::cold]] void stop(SliceId slice, bool) override {
    events_.push(now_ + kStopTime, EventLane::completion, kBatchStopped, slice.value(), runs_[slice.index()].batch);
  }

  [[gnu::cold]] void restart(SliceId slice) override {
    if (slice.index() >= runs_.size()) grow_slices(slice.index() + 1);
    // The batch on the slice is lost. Its completion event, if any, is still queued and is ignored by complete().
    if (runs_[slice.index()].batch != 0) end_batch(slice, false);
    events_.push(now_ + from_seconds(config_.faults.restart_s), EventLane::completion, kRestarted, slice.value(), 0);
  }

  [[gnu::cold]] void reshape(DeviceId device, const Layout& target) override {
    ++result_.reshapes;
    const Duration takes =
        config_.reshape_time
            ? config_.reshape_time(scheduler().state().deployment.devices[device.index()], target, now_)
            : from_seconds(config_.faults.reshape_s);
    events_.push(now_ + takes, EventLane::completion, kReshaped, device.value(), 0);
  }

  // Nothing is pushed: a slice stays lent until it is recalled.
  void lend(SliceId) override {
    ++result_.leases;
    ++lent_;
  }

  void recall(SliceId slice) override {
    events_.push(now_ + from_seconds(config_.faults.recall_s), EventLane::completion, kReturned, slice.value(), 0);
  }

  void resolve(const Request& request, const Outcome& outcome, const sched::Batch* batch) override {
    // Outcome and instant of every request, in order: two runs with the same digest made the same decisions. Rows
    // count, too.
    add_to_digest(request.id.value() * 4 + static_cast<std::uint64_t>(outcome.kind));
    add_to_digest(static_cast<std::uint64_t>(now_.time_since_epoch().count()));
    // Rows of offline jobs are not traffic: they have no Slo and must not prolong the run or change its statistics.
    if (sched::is_background(request)) return resolve_row(request, outcome.kind);
    ++resolved_;
    last_end_ = now_;
    plans_.resolved(request, outcome.kind);
    metrics_.resolve(request, outcome, batch, now_);
    requests_.resolved(request, outcome.kind, now_);
    if (config_.observer != nullptr) [[unlikely]]
      config_.observer->on_resolved(request, outcome, now_);
  }

 private:
  struct SliceRun {
    std::uint64_t batch = 0;  // 0: idle.
    TimePoint started;
    bool background = false;  // Its batch consists of rows.
  };

  const sched::Scheduler& scheduler() const { return recorded_.scheduler(); }

  // The consumer of the recorder's lines: the caller's sink, and the log of decisions if it is wanted.
  sched::RecordingSink sink() {
    if (!config_.log_decisions) return config_.recording;
    return [this](std::string_view line) {
      if (config_.recording) config_.recording(line);
      if (auto text = log_.read(line)) result_.decisions.push_back(std::move(*text));
    };
  }

  // Queues the events that nothing in the run causes: first arrivals, losses, planned changes and ticks.
  void begin() {
    requests_.start();
    rows_.start();
    if (disturbances_.loses_slices()) schedule_loss();
    for (std::uint32_t i = 0; i < config_.plan_changes.size(); ++i) {
      arrivals_.push(config_.plan_changes[i].at, EventLane::arrival, kPlanChange, i, 0);
    }
    if (plans_.watched()) arrivals_.push(now_ + config_.controller.interval, EventLane::arrival, kControl, 0, 0);
    if (config_.lessee != nullptr) {
      config_.lessee->on_start(recorded_.scheduler());
      arrivals_.push(now_ + config_.lessee_tick, EventLane::arrival, kLessee, 0, 0);
    }
    note_fleet_use();
  }

  SimulationResult finish() {
    result_.requests = requests_.made();
    result_.end = last_end_;
    result_.counted = requests_.counted(last_end_, !result_.stopped);
    result_.batches = scheduler().batches_started();
    // The ledger: unless the caller stopped the run, a request that is still outstanding is a bug of the scheduler.
    TANGRAM_CHECK(result_.stopped || scheduler().outstanding_count() == 0, "every request has been resolved");
    TANGRAM_CHECK(result_.stopped || lent_ == 0, "every lease has ended");
    result_.metrics = metrics_.take();
    for (const auto& queue : result_.metrics.queue_by_service) {
      TANGRAM_CHECK(result_.stopped || queue.waiting == 0, "every request that waited has been counted out again");
    }
    return std::move(result_);
  }

  // Arrivals have their own heap, usually with one entry per service, so that they do not deepen the heap of the
  // slices. The comparison of the two tops keeps one total order of events.
  Event next_event() { return comes_before(arrivals_.top(), events_.top()) ? arrivals_.pop() : events_.pop(); }

  // A move counts as traffic, so that a run does not end in the middle of a plan change.
  bool traffic() const {
    return requests_.pending() > 0 || scheduler().outstanding_count() > 0 || scheduler().moving();
  }

  // True if every request has arrived and been resolved; rows of offline jobs may still run.
  bool requests_over() const { return requests_.pending() == 0 && resolved_ == requests_.made(); }

  bool finished() const { return !traffic() && (config_.lessee == nullptr || !config_.lessee->busy()); }

  // FNV-1a with 64-bit words instead of bytes. The constant is the FNV prime for 64 bits.
  void add_to_digest(std::uint64_t word) { result_.digest = (result_.digest ^ word) * 0x100000001b3ULL; }

  // A linear search: a pool holds a few services, and a hash would cost more.
  const sched::PoolService& entry_of(sched::PoolId pool, ServiceId service) const {
    for (const auto& entry : scheduler().state().deployment.pools[pool.index()].services) {
      if (entry.service == service) return entry;
    }
    TANGRAM_CHECK(false, "a pool runs the services that it was compiled for");
    return scheduler().state().deployment.pools[0].services[0];
  }

  // Makes room for slices that a later plan has and the first one did not.
  [[gnu::cold]] void grow_slices(std::size_t count) {
    runs_.resize(count);
    metrics_.grow_slices(count);
  }

  // ---- Events ----

  void handle(const Event& event) {
    switch (event.kind) {
      case kArrival: arrive(event); break;
      case kRow: recorded_.on_arrival(rows_.arrive(event.index, now_)); break;
      case kBatchDone:
      case kBatchFailed:
      case kBatchStopped: complete(event); break;
      case kWake:
        // An older wake has been replaced; see wake_at().
        if (event.tag == wake_serial_) recorded_.on_wake();
        break;
      case kSliceLost: lose_slice(); break;
      case kRestarted: recorded_.on_restarted(SliceId(event.index), true); break;
      case kReshaped:
        recorded_.on_reshaped(DeviceId(event.index), disturbances_.draw_reshape_ok());
        note_fleet_use();
        break;
      case kReturned:
        --lent_;
        recorded_.on_returned(SliceId(event.index));
        break;
      case kLessee:
        config_.lessee->on_tick(now_, traffic());
        // Ticks go on without a limit; finished() ends the run although one is always queued.
        arrivals_.push(now_ + config_.lessee_tick, EventLane::arrival, kLessee, 0, 0);
        break;
      case kPlanChange: change_plan(event.index); break;
      case kControl: control(); break;
      default: TANGRAM_CHECK(false, "every kind of event is handled");
    }
  }

  void arrive(const Event& event) {
    const Request request = requests_.arrive(event);
    // Read before the scheduler sees the request, so that a request never finds itself in the queue.
    const std::size_t waiting = scheduler().waiting_count();
    plans_.arrived(request);
    metrics_.join(request, waiting);
    if (requests_.pending() == 0) result_.queue_at_end = waiting;
    if (requests_.in_first_half(now_)) result_.queue_at_middle = waiting;
    if (config_.lessee != nullptr) config_.lessee->on_arrival(request.service);
    if (config_.observer != nullptr) [[unlikely]]
      config_.observer->on_arrival(request, waiting);
    recorded_.on_arrival(request);
  }

  void resolve_row(const Request& row, OutcomeKind kind) {
    const bool answered = kind == OutcomeKind::served || kind == OutcomeKind::late;
    if (answered && !requests_over()) ++result_.background_answered;
    // No new rows after the last request has arrived, or an offline job would keep the simulation going for ever.
    if (requests_.pending() > 0) rows_.follow(row, kind, now_);
  }

  void complete(const Event& event) {
    if (runs_[event.index].batch != event.tag) return;  // The slice was lost or restarted meanwhile.
    const bool ok = event.kind == kBatchDone;
    end_batch(SliceId(event.index), ok);
    recorded_.on_batch_done({SliceId(event.index), BatchId(event.tag), ok, false, event.kind == kBatchStopped});
  }

  // Requires a batch on the slice; ensures that there is none. Rows may run on after the last request; their busy time
  // is cut at that request, because shares of time refer to the time of requests.
  void end_batch(SliceId slice, bool ok) {
    SliceRun& run = runs_[slice.index()];
    const bool tail = run.background && requests_over();
    if (!run.background) last_end_ = now_;
    const Duration took = now_ - run.started;
    const Duration counts = tail ? std::max(Duration::zero(), last_end_ - run.started) : took;
    run.batch = 0;
    metrics_.end(slice.index(), took, counts, ok);
    // The members are queued again, or resolved as if they were; in both cases they leave the queue once more.
    if (!ok) metrics_.rejoin(scheduler().state().slices[slice.index()].members);
  }

  void schedule_loss() { events_.push(now_ + disturbances_.draw_loss_gap(), EventLane::completion, kSliceLost, 0, 0); }

  [[gnu::cold]] void lose_slice() {
    const auto& slices = scheduler().state().slices;
    if (slices.empty()) return;
    const std::uint32_t victim = disturbances_.draw_victim(slices.size());
    const auto status = slices[victim].status;
    // Only idle and busy slices can be lost. The next loss is drawn in any case, so the intervals between draws do not
    // depend on the state of the fleet.
    if (status == sched::SliceStatus::idle || status == sched::SliceStatus::busy) {
      recorded_.on_slice_lost(SliceId(victim));
    }
    if (requests_.pending() > 0) schedule_loss();
  }

  // Starts the move to a plan, or queues the plan again while another move is in progress: the scheduler makes one at a
  // time.
  [[gnu::cold]] void change_plan(std::uint32_t number) {
    if (scheduler().moving()) {
      arrivals_.push(now_ + kPlanRetry, EventLane::arrival, kPlanChange, number, 0);
      return;
    }
    const sched::Deployment& next = plans_.plan(number);
    metrics_.before_plan(next);
    recorded_.on_plan_ready(next);
    metrics_.after_plan();
    note_fleet_use();
  }

  [[gnu::cold]] void control() {
    const auto next = plans_.control(now_, scheduler().moving(), metrics_.queue_by_service());
    // At this very instant, through the queue: a plan change is an event of its own and must not run inside another
    // one.
    if (next) arrivals_.push(now_, EventLane::arrival, kPlanChange, *next, 0);
    arrivals_.push(now_ + config_.controller.interval, EventLane::arrival, kControl, 0, 0);
  }

  [[gnu::cold]] void note_fleet_use() { result_.fleet_use.push_back(fleet_use_of(scheduler().state(), now_)); }

  // Returns false, and remembers it, if the caller wants the run to stop.
  [[gnu::cold]] bool report_progress() {
    if (!config_.progress) return true;
    result_.stopped = !config_.progress(requests_.share_done(now_));
    return !result_.stopped;
  }

  const SimulationConfig& config_;
  TimePoint now_;
  TimePoint last_end_;  // When a request was resolved or a batch of them ended.
  EventQueue events_;
  EventQueue arrivals_;
  std::uint64_t wake_serial_ = 0;
  Rng rng_;
  RequestFeed requests_;
  OfflineRows rows_;
  Disturbances disturbances_;
  PlanFeed plans_;
  std::uint64_t resolved_ = 0;  // Requests, without rows.
  std::uint64_t lent_ = 0;      // Slices that are away now.
  std::vector<SliceRun> runs_;  // By slice.
  SimulationResult result_;
  sched::DecisionLog log_;
  sched::RecordedScheduler recorded_;  // After what its sink uses: its last line comes when it ends.
  MetricsRecorder metrics_;
};

}  // namespace

SimulationResult simulate(const sched::Deployment& deployment, const Workload& workload,
                          const SimulationConfig& config) {
  return Simulation(deployment, workload, config).run();
}

}  // namespace tangram::sim

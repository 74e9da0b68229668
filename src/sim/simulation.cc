#include "sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/check.h"
#include "base/math.h"
#include "base/rng.h"
#include "sched/background.h"
#include "sim/arrivals.h"
#include "sim/event_queue.h"

namespace tangram::sim {
namespace {

enum EventKind : std::uint32_t {
  kArrival,    // index: service
  kBatchDone,  // index: slice, tag: batch
  kBatchFailed,
  kWake,  // tag: serial of the request to be woken
  kSliceLost,
  kRestarted,   // index: slice
  kReshaped,    // index: device
  kReturned,    // index: slice
  kPlanChange,  // index: which; those of the controller stand behind those of the configuration
  kControl,
  kLessee,
  kRow,  // index: offline job
};

// A client of a closed loop whose request was refused or failed does not ask again before this. Without it a loop that
// does not think would ask for ever in one instant.
constexpr Duration kRefusedPause = std::chrono::milliseconds(1);

// How long a row of an offline job waits before it is refused and asked again, as `tangram batch` has it.
constexpr Duration kRowPatience = std::chrono::seconds(60);
constexpr Duration kRowRefusedPause = std::chrono::milliseconds(100);
// Rows are numbered from here, so that requests have the numbers that they have without them.
constexpr std::uint64_t kRowIds = std::uint64_t{1} << 40;

// Functions that are marked cold run seldom or only while decisions are logged; their code stays out of the way of the
// rest, which a run spends its time in.
class Simulation final : public sched::World {
 public:
  Simulation(const sched::Deployment& deployment, const Workload& workload, const SimulationConfig& config)
      : config_(config),
        workload_(workload),
        rng_(config.seed),
        noise_rng_(rng_.stream("noise")),
        fault_rng_(rng_.stream("faults")),
        tenant_rng_(rng_.stream("tenants")),
        row_rng_(rng_.stream("rows")),
        scheduler_(*this, deployment, config.scheduler) {
    TANGRAM_CHECK(deployment.services.size() == workload.services.size(), "a deployment is compiled from its workload");
    prepare_metrics(deployment);
    for (std::size_t s = 0; s < workload.services.size(); ++s) {
      sources_.emplace_back(workload.services[s], rng_, s, config.rate_scale);
      pending_.emplace_back();
    }
    for (const auto& job : config.background) {
      row_samplers_.emplace_back(workload.services[job.service.index()].input_size);
    }
  }

  SimulationResult run() {
    for (std::uint32_t s = 0; s < sources_.size(); ++s) {
      if (sources_[s].closed_loop()) {
        while (const auto arrival = sources_[s].next()) push_client(s, *arrival);
      } else {
        schedule_arrival(s);
      }
    }
    for (std::uint32_t j = 0; j < config_.background.size(); ++j) {
      for (std::size_t n = 0; n < config_.background[j].under_way; ++n) push_row(j);
    }
    if (config_.faults.slice_lost_mean_s > 0) schedule_loss();
    for (std::uint32_t i = 0; i < config_.plan_changes.size(); ++i) {
      arrivals_.push(config_.plan_changes[i].at, EventLane::arrival, kPlanChange, i, 0);
    }
    if (config_.controller.decide) {
      observed_.services.resize(sources_.size());
      arrivals_.push(now_ + config_.controller.interval, EventLane::arrival, kControl, 0, 0);
    }
    if (config_.lessee != nullptr) {
      config_.lessee->on_start(scheduler_);
      arrivals_.push(now_ + config_.lessee_tick, EventLane::arrival, kLessee, 0, 0);
    }
    note_fleet_use();
    while ((!events_.empty() || !arrivals_.empty()) && !finished()) {
      const Event event = next_event();
      TANGRAM_CHECK(event.when >= now_, "virtual time never goes back");
      now_ = event.when;
      ++result_.events;
      handle(event);
      if ((result_.events & 0xffff) == 0 && !report_progress()) break;
    }
    result_.end = last_end_;
    result_.counted = counted();
    name_slices();
    result_.batches = scheduler_.batches_started();
    if (config_.tenants == 1) result_.metrics.tenants[0] = result_.metrics.total();
    TANGRAM_CHECK(result_.stopped || scheduler_.outstanding_count() == 0, "every request has been resolved");
    TANGRAM_CHECK(result_.stopped || lent_ == 0, "every lease has ended");
    auto& metrics = result_.metrics;
    for (std::size_t s = 0; s < metrics.queue_by_service.size(); ++s) {
      if (metrics.queue_by_bucket[s].size() <= 2) metrics.queue_by_bucket[s][0] = metrics.queue_by_service[s];
    }
    for (const auto& queue : metrics.queue_by_service) {
      TANGRAM_CHECK(result_.stopped || queue.waiting == 0, "every request that waited has been counted out again");
    }
    return std::move(result_);
  }

  // World.
  TimePoint now() const override { return now_; }

  void wake_at(TimePoint when) override {
    ++wake_serial_;
    if (when != kTimeNever) events_.push(std::max(when, now_), EventLane::wake, kWake, 0, wake_serial_);
  }

  void launch(const sched::Batch& batch) override {
    SliceRun& run = slice_run(batch.slice);
    TANGRAM_CHECK(run.batch == 0, "a slice runs one batch at a time");
    const sched::Place& place = scheduler_.state().slices[batch.slice.index()].place;
    const sched::PoolService& entry = entry_of(place.pool, batch.service);
    const std::int64_t table_ns = entry.latency.mean_ns(batch.bucket, batch.samples);
    std::uint32_t kind = kBatchDone;
    const std::int64_t real_ns = run_time(table_ns, &kind);
    run.batch = batch.id.value();
    run.started = now_;
    run.padded_size = batch.padded_size;
    run.background = sched::is_background(*batch.members.front());
    for (const Request* member : batch.members) leave_queue(*member);
    if (kind != kWake)
      events_.push(now_ + Duration(real_ns), EventLane::completion, kind, batch.slice.value(), batch.id.value());
    count_batch(batch, entry, real_ns);
    if (config_.log_decisions) log_launch(batch);
  }

  [[gnu::cold]] void restart(SliceId slice) override {
    SliceRun& run = slice_run(slice);
    if (run.batch != 0) {
      count_busy(slice.index());
      rejoin_queue(slice);
    }
    run.batch = 0;
    log("restart slice {}", slice.value());
    events_.push(now_ + from_seconds(config_.faults.restart_s), EventLane::completion, kRestarted, slice.value(), 0);
  }

  [[gnu::cold]] void reshape(DeviceId device, const Layout& target) override {
    const auto& geometry = scheduler_.state().deployment.devices[device.index()].geometry;
    log("reshape device {} to {}", device.value(), to_string(geometry, target));
    ++result_.reshapes;
    const Duration takes = config_.reshape_time
                               ? config_.reshape_time(scheduler_.state().deployment.devices[device.index()], target)
                               : from_seconds(config_.faults.reshape_s);
    events_.push(now_ + takes, EventLane::completion, kReshaped, device.value(), 0);
  }

  void lend(SliceId slice) override {
    log("lend slice {}", slice.value());
    ++result_.leases;
    ++lent_;
  }

  void recall(SliceId slice) override {
    log("recall slice {}", slice.value());
    events_.push(now_ + from_seconds(config_.faults.recall_s), EventLane::completion, kReturned, slice.value(), 0);
  }

  void resolve(const Request& request, const Outcome& outcome, const sched::Batch* batch) override {
    result_.digest =
        (result_.digest ^ (request.id.value() * 4 + static_cast<std::uint64_t>(outcome.kind))) * 0x100000001b3ULL;
    result_.digest = (result_.digest ^ static_cast<std::uint64_t>(now_.time_since_epoch().count())) * 0x100000001b3ULL;
    if (sched::is_background(request)) return resolve_row(request, outcome);
    ++resolved_;
    last_end_ = now_;
    if (batch == nullptr) leave_queue(request);
    if (!observed_.services.empty()) observe(observed_.services[request.service.index()], outcome.kind);
    if (request.id.value() >= config_.warmup_requests) count_outcome(request, outcome, batch);
    if (config_.log_decisions) log_outcome(request, outcome);
    const auto service = request.service.value();
    if (!sources_[service].closed_loop()) return;
    const bool answered = outcome.kind == OutcomeKind::served || outcome.kind == OutcomeKind::late;
    push_client(service, sources_[service].after_answer(answered ? now_ : now_ + kRefusedPause));
  }

 private:
  struct SliceRun {
    std::uint64_t batch = 0;  // 0: idle.
    TimePoint started;
    double useful_ns = 0;  // Of its batch, if it succeeds.
    std::int64_t padded_size = 1;
    bool background = false;  // Its batch consists of rows.
  };

  // What a request holds.
  struct Content {
    std::int64_t size = 1;
    std::int32_t samples = 1;
  };

  // Arrivals have a queue of their own: it holds one for each service, so it costs little beside that of the slices.
  Event next_event() { return comes_before(arrivals_.top(), events_.top()) ? arrivals_.pop() : events_.pop(); }

  static void observe(ServiceObservation& service, OutcomeKind kind) {
    if (kind == OutcomeKind::served) {
      ++service.served;
    } else {
      ++(kind == OutcomeKind::late ? service.late : service.lost);
    }
  }

  bool traffic() const { return pending_count_ > 0 || scheduler_.outstanding_count() > 0 || scheduler_.moving(); }

  // Every request has come and been resolved; rows of offline jobs may still run.
  bool requests_over() const { return pending_count_ == 0 && resolved_ == made_; }

  // From the last arrival that is not counted to the end of the arrivals: the duration if it cut them off, otherwise
  // the last of them. Where all came in one instant there is no such time, and what they took stands for it.
  Duration counted() const {
    if (made_ <= config_.warmup_requests) return Duration::zero();
    const TimePoint until = cut_off_ && !result_.stopped ? TimePoint(config_.duration) : last_arrival_;
    return until > counted_from_ ? until - counted_from_ : last_end_ - counted_from_;
  }

  bool finished() const { return !traffic() && (config_.lessee == nullptr || !config_.lessee->busy()); }

  const sched::PoolService& entry_of(sched::PoolId pool, ServiceId service) const {
    for (const auto& entry : scheduler_.state().deployment.pools[pool.index()].services) {
      if (entry.service == service) return entry;
    }
    TANGRAM_CHECK(false, "a pool runs the services that it was compiled for");
    return scheduler_.state().deployment.pools[0].services[0];
  }

  SliceRun& slice_run(SliceId slice) {
    if (slice.index() >= runs_.size()) {
      grow_slices(slice.index() + 1);
    }
    return runs_[slice.index()];
  }

  // ---- Arrivals ----

  void schedule_arrival(std::uint32_t service) {
    if (made_ + pending_count_ >= config_.requests_max) return;
    const auto arrival = sources_[service].next();
    if (!arrival || cut_off(*arrival)) return;
    pending_[service] = {arrival->size, arrival->samples};
    ++pending_count_;
    arrivals_.push(arrival->at, EventLane::arrival, kArrival, service, 0);
  }

  bool cut_off(const Arrival& arrival) {
    const bool too_late = arrival.at.time_since_epoch() > config_.duration;
    cut_off_ = cut_off_ || too_late;
    return too_late;
  }

  // Clients of a closed loop may have several arrivals under way, so each carries its own.
  void push_client(std::uint32_t service, const Arrival& arrival) {
    if (made_ + pending_count_ >= config_.requests_max || cut_off(arrival)) return;
    ++pending_count_;
    const std::uint64_t tag =
        (static_cast<std::uint64_t>(arrival.size) << 20) | static_cast<std::uint64_t>(arrival.samples);
    arrivals_.push(arrival.at, EventLane::arrival, kArrival, service, tag);
  }

  void arrive(const Event& event) {
    --pending_count_;
    const std::uint32_t service = event.index;
    Content content = pending_[service];
    if (event.tag != 0) {
      content.size = static_cast<std::int64_t>(event.tag >> 20);
      content.samples = static_cast<std::int32_t>(event.tag & 0xfffff);
    }
    Request request;
    request.id = RequestId(made_++);
    request.service = ServiceId(service);
    request.tenant = TenantId(config_.tenants > 1 ? static_cast<std::uint32_t>(tenant_rng_.below(config_.tenants)) : 0);
    request.priority = workload_.services[service].priority;
    request.samples = content.samples;
    request.size = content.size;
    request.arrival = now_;
    request.deadline = now_ + workload_.services[service].slo.latency;
    result_.requests = made_;
    last_arrival_ = now_;
    if (made_ <= config_.warmup_requests) counted_from_ = now_;
    if (event.tag == 0) schedule_arrival(service);
    if (!observed_.services.empty()) {
      ++observed_.services[service].arrived;
      ++observed_.services[service].sizes[request.size];
    }
    if (request.id.value() >= config_.warmup_requests) result_.metrics.queue_depth.add(scheduler_.waiting_count());
    note_queue(request);
    if (config_.log_decisions) {
      log("arrival r{} {} size {} samples {}", request.id.value(), workload_.services[service].name, request.size,
          request.samples);
    }
    if (config_.lessee != nullptr) config_.lessee->on_arrival(request.service);
    scheduler_.on_arrival(request);
  }

  // ---- Offline jobs ----

  // The next row of a job comes now, while there is traffic.
  void push_row(std::uint32_t job, Duration after = Duration::zero()) {
    arrivals_.push(now_ + after, EventLane::arrival, kRow, job, 0);
  }

  void arrive_row(std::uint32_t job) {
    const ServiceId service = config_.background[job].service;
    Request request;
    request.id = RequestId(kRowIds + rows_made_++);
    request.service = service;
    request.tenant = TenantId(job);  // Rows are not counted by tenant; it tells where the next comes from.
    request.priority = sched::kPriorityBackground;
    request.size = row_samplers_[job].draw(row_rng_);
    request.arrival = now_;
    request.deadline = now_ + kRowPatience;
    if (config_.log_decisions) log("row r{} size {}", request.id.value(), request.size);
    scheduler_.on_arrival(request);
  }

  void resolve_row(const Request& request, const Outcome& outcome) {
    if (config_.log_decisions) log_outcome(request, outcome);
    const bool answered = outcome.kind == OutcomeKind::served || outcome.kind == OutcomeKind::late;
    if (answered && !requests_over()) ++result_.background_answered;
    if (pending_count_ > 0) push_row(request.tenant.value(), answered ? Duration::zero() : kRowRefusedPause);
  }

  void note_queue(const Request& request) {
    QueueDepth& own = result_.metrics.queue_by_service[request.service.index()];
    if (TimelineStep* step = step_of(request.service.index(), now_)) {
      step->queue_max = std::max(step->queue_max, static_cast<std::uint32_t>(own.waiting));
    }
    const bool counted = request.id.value() >= config_.warmup_requests;
    own.join(counted);
    if (bucketed(request)) bucket_queue(request).join(counted);
    if (config_.tenants > 1) result_.metrics.queue_by_tenant[request.tenant.index()].join(counted);
    const bool last = pending_count_ == 0;
    if (last) result_.queue_at_end = scheduler_.waiting_count();
    const bool by_count = config_.requests_max != UINT64_MAX;
    const bool first_half =
        by_count ? made_ * 2 <= config_.requests_max : now_.time_since_epoch() * 2 <= config_.duration;
    if (first_half) result_.queue_at_middle = scheduler_.waiting_count();
  }

  void leave_queue(const Request& request) {
    if (sched::is_background(request)) return;
    result_.metrics.queue_by_service[request.service.index()].leave();
    if (bucketed(request)) bucket_queue(request).leave();
    if (config_.tenants > 1) result_.metrics.queue_by_tenant[request.tenant.index()].leave();
  }

  // The batch of the slice has failed: its members wait again, or are resolved as if they had.
  [[gnu::cold]] void rejoin_queue(SliceId slice) {
    for (const Request* member : scheduler_.state().slices[slice.index()].members) {
      if (sched::is_background(*member)) continue;
      ++result_.metrics.queue_by_service[member->service.index()].waiting;
      if (bucketed(*member)) ++bucket_queue(*member).waiting;
      if (config_.tenants > 1) ++result_.metrics.queue_by_tenant[member->tenant.index()].waiting;
    }
  }

  // The edges of buckets have moved, so what waits stands in other buckets than those it joined.
  [[gnu::cold]] void recount_buckets() {
    for (auto& queues : result_.metrics.queue_by_bucket) {
      for (auto& queue : queues) queue.waiting = 0;
    }
    const auto count = [&](const sched::RequestQueue& queue) {
      for (const sched::Waiting* w = queue.front(); w != nullptr; w = w->next) ++bucket_queue(w->request).waiting;
    };
    for (const auto& lane : scheduler_.state().lanes) count(lane.queue);
    for (const auto& slice : scheduler_.state().slices) count(slice.bound);
  }

  // The number of edges where the request is larger than all.
  std::size_t bucket_of(const Request& request) const {
    const auto& edges = scheduler_.state().deployment.services[request.service.index()].edges;
    std::size_t bucket = 0;
    while (bucket < edges.size() && edges[bucket] < request.size) ++bucket;
    return bucket;
  }

  // False where the queue of the service is that of its only bucket, so that counting once suffices.
  bool bucketed(const Request& request) const {
    return result_.metrics.queue_by_bucket[request.service.index()].size() > 2;
  }

  QueueDepth& bucket_queue(const Request& request) {
    auto& queues = result_.metrics.queue_by_bucket[request.service.index()];
    return queues[std::min(bucket_of(request), queues.size() - 1)];
  }

  // ---- Events ----

  void handle(const Event& event) {
    switch (event.kind) {
      case kArrival: arrive(event); break;
      case kRow: arrive_row(event.index); break;
      case kBatchDone:
      case kBatchFailed: complete(event); break;
      case kWake:
        if (event.tag == wake_serial_) scheduler_.on_wake();
        break;
      case kSliceLost: lose_slice(); break;
      case kRestarted: scheduler_.on_restarted(SliceId(event.index), true); break;
      case kReshaped: {
        const bool ok = !fault_rng_.chance(config_.faults.reshape_fail_probability);
        log("reshaped device {} {}", event.index, ok ? "ok" : "failed");
        scheduler_.on_reshaped(DeviceId(event.index), ok);
        note_fleet_use();
        break;
      }
      case kReturned:
        log("returned slice {}", event.index);
        --lent_;
        scheduler_.on_returned(SliceId(event.index));
        break;
      case kLessee:
        config_.lessee->on_tick(now_, traffic());
        arrivals_.push(now_ + config_.lessee_tick, EventLane::arrival, kLessee, 0, 0);
        break;
      case kPlanChange:
        if (scheduler_.moving()) {  // One plan moves at a time: try again when it may be done.
          arrivals_.push(now_ + from_seconds(1), EventLane::arrival, kPlanChange, event.index, 0);
        } else {
          change_plan(event.index);
        }
        break;
      case kControl: control(); break;
      default: TANGRAM_CHECK(false, "every kind of event is handled");
    }
  }

  [[gnu::cold]] void change_plan(std::uint32_t index) {
    const std::size_t configured = config_.plan_changes.size();
    const sched::Deployment& next =
        index < configured ? config_.plan_changes[index].deployment : decided_[index - configured];
    log("plan change {}", index);
    best_units_.clear();  // They are known by address, and batches may start while the plan is put in place.
    name_slices();
    extend_metrics(next);
    scheduler_.on_plan_ready(next);
    recount_buckets();
    best_units_.clear();
    note_fleet_use();
  }

  // Tells the controller what happened, and starts counting anew.
  [[gnu::cold]] void control() {
    observed_.at = now_;
    observed_.moving = scheduler_.moving();
    for (std::size_t s = 0; s < observed_.services.size(); ++s) {
      observed_.services[s].waiting = result_.metrics.queue_by_service[s].waiting;
    }
    auto next = config_.controller.decide(observed_);
    observed_.services.assign(observed_.services.size(), {});
    if (next) {
      const auto index = static_cast<std::uint32_t>(config_.plan_changes.size() + decided_.size());
      decided_.push_back(std::move(*next));
      arrivals_.push(now_, EventLane::arrival, kPlanChange, index, 0);
    }
    arrivals_.push(now_ + config_.controller.interval, EventLane::arrival, kControl, 0, 0);
  }

  void note_fleet_use() {
    FleetUse use{now_, 0, 0, 0};
    std::set<DeviceId> devices;
    std::set<std::tuple<DeviceId, std::uint16_t, std::uint16_t>> places;
    for (const auto& slice : scheduler_.state().slices) {
      if (slice.status == sched::SliceStatus::gone) continue;
      devices.insert(slice.place.device);
      const auto place = std::tuple(slice.place.device, slice.place.slice.profile, slice.place.slice.start);
      if (!places.insert(place).second) continue;
      use.compute_slices += scheduler_.state().deployment.pools[slice.place.pool.index()].compute_slices;
    }
    use.devices = devices.size();
    use.slices = places.size();
    result_.fleet_use.push_back(use);
  }

  // The batch of a slice has ended. Rows that run on after the last request count until then, because shares of time
  // are over the time of requests; answers the share of the batch that counts.
  double count_busy(std::size_t slice) {
    const SliceRun& run = runs_[slice];
    const bool tail = run.background && requests_over();
    if (!run.background) last_end_ = now_;
    const Duration took = now_ - run.started;
    const Duration counts = tail ? std::max(Duration::zero(), last_end_ - run.started) : took;
    result_.metrics.slices[slice].busy_ns += counts.count();
    if (counts == took) return 1;
    return static_cast<double>(counts.count()) / static_cast<double>(took.count());
  }

  void complete(const Event& event) {
    SliceRun& run = runs_[event.index];
    if (run.batch != event.tag) return;  // The slice was lost or restarted meanwhile.
    run.batch = 0;
    const double share = count_busy(event.index);
    if (event.kind == kBatchDone) {
      result_.metrics.slices[event.index].useful_ns += share * run.useful_ns;
    } else {
      rejoin_queue(SliceId(event.index));
    }
    scheduler_.on_batch_done({SliceId(event.index), BatchId(event.tag), event.kind == kBatchDone});
  }

  std::int64_t run_time(std::int64_t table_ns, std::uint32_t* kind) {
    double factor = config_.noise.factor;
    const double spread = config_.noise.spread;
    if (config_.noise.exponential) factor *= noise_rng_.exponential(1);
    if (spread > 0) factor *= math::exp(spread * noise_rng_.normal() - 0.5 * spread * spread);
    const FaultModel& faults = config_.faults;
    if (faults.slow_probability > 0 && fault_rng_.chance(faults.slow_probability)) factor *= faults.slow_factor;
    if (faults.fail_probability > 0 && fault_rng_.chance(faults.fail_probability)) *kind = kBatchFailed;
    if (faults.stuck_probability > 0 && fault_rng_.chance(faults.stuck_probability)) *kind = kWake;
    if (factor == 1) return table_ns;
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): the time is positive.
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(table_ns) * factor + 0.5));
  }

  void schedule_loss() {
    const double gap = fault_rng_.exponential(config_.faults.slice_lost_mean_s);
    events_.push(now_ + from_seconds(gap), EventLane::completion, kSliceLost, 0, 0);
  }

  [[gnu::cold]] void lose_slice() {
    const auto& slices = scheduler_.state().slices;
    if (slices.empty()) return;
    const auto victim = static_cast<std::uint32_t>(fault_rng_.below(slices.size()));
    const auto status = slices[victim].status;
    if (status == sched::SliceStatus::idle || status == sched::SliceStatus::busy) {
      log("lose slice {}", victim);
      scheduler_.on_slice_lost(SliceId(victim));
    }
    if (pending_count_ > 0) schedule_loss();
  }

  [[gnu::cold]] bool report_progress() {
    if (!config_.progress) return true;
    double share = 0;
    if (config_.requests_max != UINT64_MAX) {
      share = static_cast<double>(made_) / static_cast<double>(config_.requests_max);
    } else if (config_.duration != Duration::max()) {
      share = to_seconds(now_) / to_seconds(config_.duration);
    }
    result_.stopped = !config_.progress(std::min(1.0, share));
    return !result_.stopped;
  }

  // ---- Counting ----

  void prepare_metrics(const sched::Deployment& deployment) {
    Metrics& metrics = result_.metrics;
    metrics.tenants.resize(config_.tenants);
    if (config_.tenants > 1) metrics.queue_by_tenant.resize(config_.tenants);
    grow_slices(deployment.places.size());
    metrics.services.resize(deployment.services.size());
    metrics.batch_sizes.resize(deployment.services.size());
    metrics.queue_by_service.resize(deployment.services.size());
    metrics.queue_by_bucket.resize(deployment.services.size());
    extend_metrics(deployment);
    if (config_.timeline_steps > 0 && config_.duration != Duration::max()) {
      metrics.timeline_step = config_.duration / static_cast<std::int64_t>(config_.timeline_steps) + Duration(1);
      metrics.timeline.assign(workload_.services.size(), std::vector<TimelineStep>(config_.timeline_steps));
    }
  }

  // A new plan may have more buckets; tallies go by bucket number. One more is for requests that fit no bucket.
  void extend_metrics(const sched::Deployment& deployment) {
    Metrics& metrics = result_.metrics;
    for (std::size_t s = 0; s < deployment.services.size(); ++s) {
      const std::size_t count = std::max(metrics.services[s].size(), deployment.services[s].edges.size() + 1);
      metrics.services[s].resize(count);
      metrics.batch_sizes[s].resize(count, CountHistogram(kBatchSizesCounted));
      metrics.queue_by_bucket[s].resize(count);
    }
  }

  void grow_slices(std::size_t count) {
    runs_.resize(std::max(count, runs_.size()));
    result_.metrics.slices.resize(runs_.size());
    if (runs_.size() <= kSlicesWithLatency) result_.metrics.slice_latency.resize(runs_.size());
  }

  // Says where those slices are that have no name yet; to be called while their plan is in force.
  void name_slices() {
    const auto& slices = scheduler_.state().slices;
    auto& places = result_.metrics.places;
    grow_slices(slices.size());
    std::map<std::tuple<DeviceId, std::uint16_t, std::uint16_t>, int> processes;
    const auto key = [](const sched::Place& at) { return std::tuple(at.device, at.slice.profile, at.slice.start); };
    for (std::size_t i = places.size(); i < slices.size(); ++i) ++processes[key(slices[i].place)];
    while (places.size() < slices.size()) {
      const sched::Place& at = slices[places.size()].place;
      places.push_back(named(at));
      places.back().compute_slices /= processes[key(at)];
    }
  }

  SlicePlace named(const sched::Place& at) const {
    const auto& deployment = scheduler_.state().deployment;
    const sched::Pool& pool = deployment.pools[at.pool.index()];
    SlicePlace place;
    place.device_id = at.device;
    place.slice = at.slice;
    place.process = at.process;
    place.compute_slices = pool.compute_slices;
    for (const auto& entry : pool.services) place.services.push_back(entry.service);
    if (at.device.index() >= deployment.devices.size()) return place;  // An experiment that stands on no device.
    const auto& device = deployment.devices[at.device.index()];
    if (at.slice.profile >= device.geometry.profiles.size()) return place;
    place.device = device.name;
    place.name = fmt::format("{}@{}", device.geometry.profiles[at.slice.profile].name, at.slice.start);
    if (at.process > 0) place.name += fmt::format("#{}", at.process);
    return place;
  }

  void count_batch(const sched::Batch& batch, const sched::PoolService& entry, std::int64_t real_ns) {
    Metrics& metrics = result_.metrics;
    SliceTally& slice = metrics.slices[batch.slice.index()];
    ++slice.batches;
    slice.samples += static_cast<std::uint64_t>(batch.samples);
    if (!sched::is_background(*batch.members.front())) {
      metrics.batch_sizes[batch.service.index()][batch.bucket].add(static_cast<std::size_t>(batch.samples));
    }
    const std::uint64_t bound = scheduler_.state().slices[batch.slice.index()].bound.count();
    slice.queue_sum += bound;
    slice.queue_max = std::max(slice.queue_max, bound);
    double real = 0;
    for (const Request* member : batch.members) real += static_cast<double>(member->size * member->samples);
    const double padded = static_cast<double>(batch.padded_size) * batch.samples;
    slice.size_real += real;
    slice.size_padded += padded;
    const auto table_ns = static_cast<double>(entry.latency.mean_ns(batch.bucket, batch.samples));
    const double filled = best_unit_ns(entry, batch.bucket) * batch.samples / table_ns;
    runs_[batch.slice.index()].useful_ns = static_cast<double>(real_ns) * filled * real / padded;
    if (metrics.batches.size() < config_.batches_recorded_max) {
      metrics.batches.push_back({now_, now_ + Duration(real_ns), batch.slice, batch.service, batch.bucket,
                                 batch.samples, static_cast<std::uint32_t>(batch.members.size())});
    } else if (config_.batches_recorded_max > 0) {
      ++metrics.batches_beyond;
    }
  }

  // Nanoseconds per sample at the batch size that uses the slice best: what a full slice needs.
  double best_unit_ns(const sched::PoolService& entry, std::size_t bucket) {
    for (auto& known : best_units_) {
      if (known.entry == &entry && known.bucket == bucket) return known.unit_ns;
    }
    double best = 1e300;
    for (std::int32_t n = 1; n <= entry.batch_max[bucket]; ++n) {
      best = std::min(best, static_cast<double>(entry.latency.mean_ns(bucket, n)) / n);
    }
    best_units_.push_back({&entry, bucket, best});
    return best;
  }

  TimelineStep* step_of(std::size_t service, TimePoint at) {
    auto& timeline = result_.metrics.timeline;
    if (timeline.empty()) return nullptr;
    const auto index = static_cast<std::size_t>(at.time_since_epoch() / result_.metrics.timeline_step);
    return index < timeline[service].size() ? &timeline[service][index] : nullptr;
  }

  void count_outcome(const Request& request, const Outcome& outcome, const sched::Batch* batch) {
    auto& tallies = result_.metrics.services[request.service.index()];
    count_in(tallies[std::min(bucket_of(request), tallies.size() - 1)], request, outcome, batch);
    if (batch != nullptr) count_in_slice(batch->slice.index(), request, outcome);
    if (config_.tenants > 1) count_in(result_.metrics.tenants[request.tenant.index()], request, outcome, batch);
    if (TimelineStep* step = step_of(request.service.index(), request.arrival)) {
      ++step->arrived;
      step->served += outcome.kind == OutcomeKind::served ? 1 : 0;
      step->late += outcome.kind == OutcomeKind::late ? 1 : 0;
      step->lost += outcome.kind == OutcomeKind::rejected || outcome.kind == OutcomeKind::failed ? 1 : 0;
    }
  }

  void count_in_slice(std::size_t index, const Request& request, const Outcome& outcome) {
    SliceTally& slice = result_.metrics.slices[index];
    ++(outcome.kind == OutcomeKind::served ? slice.served : slice.late);
    auto& latency = result_.metrics.slice_latency;
    if (index < latency.size()) latency[index].add(static_cast<std::uint64_t>((now_ - request.arrival).count()));
  }

  void count_in(Tally& tally, const Request& request, const Outcome& outcome, const sched::Batch* batch) const {
    ++tally.arrived;
    switch (outcome.kind) {
      case OutcomeKind::served: ++tally.served; break;
      case OutcomeKind::late: ++tally.late; break;
      case OutcomeKind::failed: ++tally.failed; return;
      case OutcomeKind::rejected: ++tally.rejected[static_cast<std::size_t>(outcome.reason)]; return;
    }
    const Duration latency = now_ - request.arrival;
    tally.latency.add(static_cast<std::uint64_t>(latency.count()));
    tally.wait_sum_ns += static_cast<double>((latency - batch->took).count());
    tally.size_real += static_cast<double>(request.size * request.samples);
    tally.size_padded += static_cast<double>(runs_[batch->slice.index()].padded_size * request.samples);
  }

  // ---- The decision log ----

  template <typename... Args>
  void log(fmt::format_string<Args...> format, Args&&... args) {
    if (!config_.log_decisions) return;
    result_.decisions.push_back(fmt::format("{:.6f} ", to_seconds(now_)) +
                                fmt::format(format, std::forward<Args>(args)...));
  }

  [[gnu::cold]] void log_launch(const sched::Batch& batch) {
    std::string members;
    for (const Request* member : batch.members) members += fmt::format(" r{}", member->id.value());
    log("launch b{} slice {} padded {} samples {}:{}", batch.id.value(), batch.slice.value(), batch.padded_size,
        batch.samples, members);
  }

  [[gnu::cold]] void log_outcome(const Request& request, const Outcome& outcome) {
    const bool dated = outcome.kind == OutcomeKind::rejected && outcome.earliest != kTimeNever;
    log("resolve r{} {}{}", request.id.value(), to_string(outcome.kind),
        dated ? fmt::format(" earliest {:.6f}", to_seconds(outcome.earliest)) : "");
  }

  struct BestUnit {
    const sched::PoolService* entry;
    std::size_t bucket;
    double unit_ns;
  };

  const SimulationConfig& config_;
  const Workload& workload_;
  TimePoint now_;
  TimePoint last_end_;      // When a request was resolved or a batch of them ended.
  TimePoint last_arrival_;  // Of a request, ...
  TimePoint counted_from_;  // ... and of the last that is not counted.
  bool cut_off_ = false;    // The duration ended the arrivals of a service.
  EventQueue events_;
  EventQueue arrivals_;
  std::uint64_t wake_serial_ = 0;
  Rng rng_;
  Rng noise_rng_;
  Rng fault_rng_;
  Rng tenant_rng_;
  Rng row_rng_;
  std::vector<ArrivalSource> sources_;
  std::vector<Content> pending_;  // By service: the arrival that is on its way.
  std::uint64_t made_ = 0;
  std::uint64_t pending_count_ = 0;
  std::uint64_t resolved_ = 0;             // Requests, without rows.
  std::uint64_t lent_ = 0;                 // Slices that are away now.
  std::vector<SizeSampler> row_samplers_;  // By offline job.
  std::uint64_t rows_made_ = 0;
  std::vector<SliceRun> runs_;
  std::vector<BestUnit> best_units_;
  Observation observed_;                   // Since the controller was last told; no services if there is none.
  std::deque<sched::Deployment> decided_;  // By the controller, in order.
  SimulationResult result_;
  sched::Scheduler scheduler_;
};

}  // namespace

SimulationResult simulate(const sched::Deployment& deployment, const Workload& workload,
                          const SimulationConfig& config) {
  return Simulation(deployment, workload, config).run();
}

}  // namespace tangram::sim

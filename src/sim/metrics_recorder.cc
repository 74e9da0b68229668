// Counts what happens in a run, in memory that does not grow with the number of requests.
//
// Latencies go into quantile sketches with a relative error of 0.4 %, batch sizes into histograms, queue lengths into
// counters. The code on the path of each request is kept short, because counting is a noticeable share of a simulation
// that handles millions of requests.

#include "sim/metrics_recorder.h"

#include <algorithm>

#include "sim/slice_places.h"

namespace tangram::sim {

MetricsRecorder::MetricsRecorder(const sched::State& state, const MetricsConfig& config)
    : state_(state), config_(config) {
  const sched::Deployment& deployment = state.deployment;
  const std::size_t services = deployment.services.size();
  metrics_.tenants.resize(config.tenants);
  if (config.parts.step > Duration::zero()) {
    metrics_.parts.resize(config.parts.count * (config.parts.by_service ? services : 1));
  }
  if (config.tenants > 1) metrics_.queue_by_tenant.resize(config.tenants);
  metrics_.services.resize(services);
  metrics_.batch_sizes.resize(services);
  metrics_.queue_by_service.resize(services);
  metrics_.queue_by_bucket.resize(services);
  grow_slices(deployment.places.size());
  extend_buckets(deployment);
  if (config.timeline_steps > 0 && config.duration != Duration::max()) {
    // One nanosecond more, so that the last instant of the duration still falls into the last step after the division.
    metrics_.timeline_step = config.duration / static_cast<std::int64_t>(config.timeline_steps) + Duration(1);
    metrics_.timeline.assign(services, std::vector<TimelineStep>(config.timeline_steps));
  }
}

// One bucket more than the plan has, for requests that are larger than every bucket. Existing tallies are kept, so a
// plan with fewer buckets loses no counts.
void MetricsRecorder::extend_buckets(const sched::Deployment& deployment) {
  for (std::size_t s = 0; s < deployment.services.size(); ++s) {
    const std::size_t count = std::max(metrics_.services[s].size(), deployment.services[s].edges.size() + 1);
    metrics_.services[s].resize(count);
    metrics_.batch_sizes[s].resize(count, CountHistogram(kBatchSizesCounted));
    metrics_.queue_by_bucket[s].resize(count);
  }
}

void MetricsRecorder::grow_slices(std::size_t count) {
  running_.resize(std::max(count, running_.size()));
  metrics_.slices.resize(running_.size());
  if (running_.size() <= kSlicesWithLatency) metrics_.slice_latency.resize(running_.size());
}

std::size_t MetricsRecorder::bucket_of(const Request& request) const {
  const auto& edges = state_.deployment.services[request.service.index()].edges;
  std::size_t bucket = 0;
  // A linear search, because a service has few buckets.
  while (bucket < edges.size() && edges[bucket] < request.size) ++bucket;
  return bucket;
}

QueueDepth& MetricsRecorder::bucket_queue(const Request& request) {
  auto& queues = metrics_.queue_by_bucket[request.service.index()];
  return queues[std::min(bucket_of(request), queues.size() - 1)];
}

// The members of a failed batch are queued again. They are not arrivals, so the queue length that they find is not
// counted.
void MetricsRecorder::rejoin(std::span<const Request* const> members) {
  for (const Request* member : members) {
    if (sched::is_background(*member)) continue;
    ++metrics_.queue_by_service[member->service.index()].waiting;
    if (is_bucketed(member->service.index())) ++bucket_queue(*member).waiting;
    if (config_.tenants > 1) ++metrics_.queue_by_tenant[member->tenant.index()].waiting;
  }
}

// start() and resolve() run for every batch and every request. Flattening them saves about 100 instructions each, which
// is 3 % of the time of a run.
[[gnu::flatten]] void MetricsRecorder::start(const sched::Batch& batch, const BatchStart& how) {
  double real = 0;
  for (const Request* member : batch.members) {
    leave(*member);
    real += static_cast<double>(member->size * member->samples);
  }
  SliceTally& slice = metrics_.slices[batch.slice.index()];
  ++slice.batches;
  slice.samples += static_cast<std::uint64_t>(batch.samples);
  // Batch sizes describe how requests are batched; rows fill whatever is left and would hide that.
  if (!sched::is_background(*batch.members.front())) {
    metrics_.batch_sizes[batch.service.index()][batch.bucket].add(static_cast<std::size_t>(batch.samples));
  }
  // Requests that are bound to this slice alone. Lanes are shared by several slices and are counted per bucket instead.
  const std::uint64_t bound = state_.slices[batch.slice.index()].bound.count();
  slice.queue_sum += bound;
  slice.queue_max = std::max(slice.queue_max, bound);
  const double padded = static_cast<double>(batch.padded_size) * batch.samples;
  slice.size_real += real;
  slice.size_padded += padded;
  // Useful time is what the same samples without padding would take on a slice that always runs its most efficient
  // batch. Example: a batch of 2 that takes 10 ms where the best batch needs 4 ms per sample is 80 % filled.
  const double filled = best_unit_ns(how.entry, batch.bucket) * batch.samples / static_cast<double>(how.table_ns);
  running_[batch.slice.index()] = {static_cast<double>(how.real_ns) * filled * real / padded, batch.padded_size};
  if (metrics_.batches.size() < config_.batches_recorded_max) {
    metrics_.batches.push_back({how.now, how.now + batch.load + Duration(how.real_ns), batch.slice, batch.service,
                                batch.bucket, batch.samples, static_cast<std::uint32_t>(batch.members.size())});
    // Only the first batches are kept for pictures; the rest is counted, so that a reader knows the record is
    // incomplete.
  } else if (config_.batches_recorded_max > 0) {
    ++metrics_.batches_beyond;
  }
}

// Costs one evaluation per batch size, so results are kept. There are few pairs of entry and bucket; a linear search
// over them is cheaper than a map.
double MetricsRecorder::best_unit_ns(const sched::PoolService& entry, std::size_t bucket) {
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

void MetricsRecorder::end(std::size_t slice, Duration took, Duration counts, bool ok) {
  SliceTally& tally = metrics_.slices[slice];
  tally.busy_ns += counts.count();
  if (!ok) return;
  // If only a part of the batch counts as busy, the useful time is reduced by the same share.
  const double share = counts == took ? 1 : static_cast<double>(counts.count()) / static_cast<double>(took.count());
  tally.useful_ns += share * running_[slice].useful_ns;
}

[[gnu::flatten]] void MetricsRecorder::resolve(const Request& request, const Outcome& outcome,
                                               const sched::Batch* batch, TimePoint now) {
  // A request with a batch left its queue when the batch started.
  if (batch == nullptr) leave(request);
  if (!is_counted(request)) return;
  auto& tallies = metrics_.services[request.service.index()];
  count_in(tallies[std::min(bucket_of(request), tallies.size() - 1)], request, outcome, batch, now);
  if (batch != nullptr) count_in_slice(batch->slice.index(), request, outcome, now);
  if (config_.tenants > 1) count_in(metrics_.tenants[request.tenant.index()], request, outcome, batch, now);
  if (!metrics_.timeline.empty()) count_in_timeline(request, outcome);
  if (!metrics_.parts.empty()) {
    const std::uint8_t part = config_.parts.at(request.arrival);
    const std::size_t first = config_.parts.by_service ? request.service.index() * config_.parts.count : 0;
    if (part != TrafficParts::kUncounted) count_in(metrics_.parts[first + part], request, outcome, batch, now);
  }
}

void MetricsRecorder::count_in(Tally& tally, const Request& request, const Outcome& outcome, const sched::Batch* batch,
                               TimePoint now) const {
  ++tally.arrived;
  switch (outcome.kind) {
    case OutcomeKind::served: ++tally.served; break;
    case OutcomeKind::late: ++tally.late; break;
    // Requests without an answer have no latency; latency_quantile() treats them as infinite.
    case OutcomeKind::failed: ++tally.failed; return;
    // Callers of the simulation wait for their answers.
    case OutcomeKind::abandoned: return;
    case OutcomeKind::rejected: ++tally.rejected[index_of(outcome.reason)]; return;
  }
  const Duration latency = now - request.arrival;
  tally.latency.add(static_cast<std::uint64_t>(latency.count()));
  tally.wait_sum_ns += static_cast<double>((latency - batch->took).count());
  tally.size_real += static_cast<double>(request.size * request.samples);
  tally.size_padded += static_cast<double>(running_[batch->slice.index()].padded_size * request.samples);
}

void MetricsRecorder::count_in_slice(std::size_t slice, const Request& request, const Outcome& outcome, TimePoint now) {
  SliceTally& tally = metrics_.slices[slice];
  ++(outcome.kind == OutcomeKind::served ? tally.served : tally.late);
  auto& latency = metrics_.slice_latency;
  if (slice < latency.size()) latency[slice].add(static_cast<std::uint64_t>((now - request.arrival).count()));
}

// Counted in the step of the arrival, so that a step shows what became of the requests that arrived in it.
void MetricsRecorder::count_in_timeline(const Request& request, const Outcome& outcome) {
  TimelineStep* step = step_of(request.service.index(), request.arrival);
  if (step == nullptr) return;
  ++step->arrived;
  switch (outcome.kind) {
    case OutcomeKind::served: ++step->served; break;
    case OutcomeKind::late: ++step->late; break;
    case OutcomeKind::rejected:
    case OutcomeKind::failed: ++step->lost; break;
    case OutcomeKind::abandoned: break;
  }
}

// Batches may start while the plan is put in place, so the best units are forgotten before and after it: entries are
// identified by address, and after the change another entry may have the same address.
void MetricsRecorder::before_plan(const sched::Deployment& next) {
  best_units_.clear();
  append_places(state_, metrics_.places);
  grow_slices(state_.slices.size());
  extend_buckets(next);
}

void MetricsRecorder::after_plan() {
  recount_buckets();
  best_units_.clear();
}

// The edges of buckets have moved, so queued requests are in other buckets than those that they joined.
void MetricsRecorder::recount_buckets() {
  for (auto& queues : metrics_.queue_by_bucket) {
    for (auto& queue : queues) queue.waiting = 0;
  }
  const auto count = [&](const sched::RequestQueue& queue) {
    for (const sched::Waiting* w = queue.front(); w != nullptr; w = w->next) ++bucket_queue(w->request).waiting;
  };
  for (const auto& lane : state_.lanes) count(lane.queue);
  for (const auto& slice : state_.slices) count(slice.bound);
}

// What was not counted twice while running is copied now: one tenant is all tenants, one bucket is the service.
Metrics MetricsRecorder::take() {
  append_places(state_, metrics_.places);
  grow_slices(state_.slices.size());
  if (config_.tenants == 1) metrics_.tenants[0] = metrics_.total();
  for (std::size_t s = 0; s < metrics_.queue_by_service.size(); ++s) {
    if (!is_bucketed(s)) metrics_.queue_by_bucket[s][0] = metrics_.queue_by_service[s];
  }
  return std::move(metrics_);
}

}  // namespace tangram::sim

// Starts and ends batches. A batch's members stay in the store, owned by the slice, until they are resolved.
#include "sched/batch_runner.h"

#include <algorithm>

#include "base/check.h"
#include "sched/background.h"

namespace tangram::sched {
namespace {

// False for a batch of a bucket that the plan in force does not have.
bool in_table(const SliceState& slice, const PoolService& entry) {
  return slice.batch_bucket < entry.batch_max.size() && entry.takes(slice.batch_bucket, slice.batch_samples);
}

// A model that was never timed may be large. One that takes longer than this counts as stuck.
constexpr Duration kLoadUnknown = std::chrono::seconds(30);

// How long the load of a model may take before `factor` applies.
Duration load_limit(const SliceState& slice) {
  if (!slice.batch_cold) return Duration::zero();
  return slice.batch_load > Duration::zero() ? slice.batch_load : kLoadUnknown;
}

}  // namespace

bool is_stuck(const View& view, const SliceState& slice, double factor, Duration least) {
  if (slice.status != SliceStatus::busy) return false;
  const PoolService& entry = *view.pool_service(slice.place.pool, slice.batch_service);
  // A batch of an old plan has no entry in the table; its own prediction when it started is the next best.
  const Duration p99 = in_table(slice, entry)
                           ? view.p99(slice.place.pool, entry, slice.batch_bucket, slice.batch_samples)
                           : slice.free_at - slice.started - slice.batch_load;
  const Duration limit(static_cast<std::int64_t>(static_cast<double>((p99 + load_limit(slice)).count()) * factor));
  return view.now() - slice.started > std::max(limit, least);
}

void BatchRunner::launch(SliceId id, BatchDraft& batch) {
  TANGRAM_CHECK(!batch.members.empty(), "a batch has members");
  const SliceState& slice = state_.slices[id.index()];
  const PoolId pool = slice.place.pool;
  const ServiceId service = batch.members.front()->queue;
  const PoolService* entry = view_.pool_service(pool, service);
  TANGRAM_CHECK(entry != nullptr && entry->takes(batch.bucket, batch.samples), "a batch stays within the plan's limit");
  // Before the prediction, because background requests make the batch longer.
  if (state_.background != nullptr) fill_up(slice, batch);
  OnDemandModels::Use use;
  if (entry->model.on_demand) [[unlikely]] {
    use = state_.slices.use_on_demand(id, state_.deployment.pools[pool.index()], *entry);
  }
  const Duration load = use.cold ? entry->model.load : Duration::zero();
  const Duration predicted = view_.mean(pool, *entry, batch.bucket, batch.samples) + load;
  const BatchId batch_id(++batches_);
  for (const Request* member : batch.members) {
    record_of(member)->place = RecordPlace::running;
    record_of(member)->holder = id.value();
  }
  // The World comes last: it sees the slice as busy.
  state_.slices.go_busy(id, {batch_id, service, batch.bucket, batch.samples, state_.now, predicted, use.cold, load});
  state_.waiting_count -= batch.members.size();
  world_.launch({.id = batch_id,
                 .slice = id,
                 .service = service,
                 .bucket = batch.bucket,
                 .padded_size = padded_size(state_.deployment.services[service.index()], batch),
                 .samples = batch.samples,
                 .predicted = predicted,
                 .members = batch.members,
                 .cold = use.cold,
                 .load = load,
                 .evicted = use.evicted});
}

// Services that pad to the bucket run every batch of it in one shape. The others pad to the largest member, or put only
// members of one size into a batch.
inline std::int64_t BatchRunner::padded_size(const DeployedService& service, const BatchDraft& batch) const {
  if (service.padding == Padding::bucket) return service.edges[batch.bucket];
  std::int64_t largest = 1;
  for (const Request* member : batch.members) largest = std::max(largest, member->size);
  return largest;
}

void BatchRunner::fill_up(const SliceState& slice, BatchDraft& batch) {
  if (!slice.bound.empty()) return;  // The slice was promised to the requests bound to it at a certain time.
  if (record_of(batch.members.front())->alone) return;
  for (Waiting* waiting :
       state_.background->fill(view_, slice.place.pool, batch.members, batch.bucket, batch.samples)) {
    state_.background->erase(waiting);
    batch.add(waiting);
  }
}

void BatchRunner::end(SliceId id) {
  const SliceState& slice = state_.slices[id.index()];
  const PoolId pool = slice.place.pool;
  const PoolService& entry = *view_.pool_service(pool, slice.batch_service);
  const Duration took = state_.now - slice.started;
  // Against the table, not against the corrected prediction: corrections are factors of the table. A run that loaded
  // its model says nothing about others.
  if (state_.corrections.on() && !slice.batch_cold && in_table(slice, entry)) {
    const auto mean = static_cast<double>(entry.latency.mean_ns(slice.batch_bucket, slice.batch_samples));
    const auto p99 = static_cast<double>(entry.latency.p99_ns(slice.batch_bucket, slice.batch_samples));
    state_.corrections.learn(view_.row_of(pool, entry), slice.batch_bucket, slice.batch_samples,
                             static_cast<double>(took.count()) / mean, p99 / mean - 1);
  }
  // The slice still holds its members while they are answered, because the World's batch points to them.
  resolver_.answer({.id = slice.batch,
                    .slice = id,
                    .service = slice.batch_service,
                    .bucket = slice.batch_bucket,
                    .samples = slice.batch_samples,
                    .took = took,
                    .members = slice.members,
                    .cold = slice.batch_cold});
  state_.slices.clear_members(id);
}

std::vector<Waiting*> BatchRunner::take_members(SliceId id) {
  std::vector<Waiting*> members;
  for (const Request* member : state_.slices[id.index()].members) members.push_back(record_of(member));
  state_.slices.clear_members(id);
  return members;
}

}  // namespace tangram::sched

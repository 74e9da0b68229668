// Background requests from arrival to launch. The Background object is made on the first of them, so a scheduler
// without offline jobs pays nothing.
#include "sched/background_runner.h"

#include "sched/admission.h"
#include "sched/sample_class.h"

namespace tangram::sched {
namespace {

// How often idle slices are asked again while background requests wait. The slack rises with time alone, by a
// two-hundredth of the Slo in this time; a request that waits beyond its deadline is rejected within it.
constexpr Duration kBackgroundEvery = std::chrono::milliseconds(100);

}  // namespace

RecordNumber BackgroundRunner::arrive(const Request& request) {
  if (state_.background == nullptr) state_.background = std::make_unique<Background>(state_, merge_);
  const DeployedService& service = view_.service(request.queue);
  const std::uint32_t bucket = view_.bucket_of(request);
  RejectReason reason = RejectReason::too_large;
  if (service.takes(bucket, request.samples)) reason = why_never(view_, request, bucket);
  const bool full = state_.store.full() || state_.background->full();
  if (reason == RejectReason::none && full) reason = RejectReason::queue_full;
  if (reason == RejectReason::none && ending_) reason = RejectReason::no_capacity;
  if (reason != RejectReason::none) {
    resolver_.reject(request, reason);
    return kNoRecord;
  }
  Waiting* waiting = state_.store.take(request, bucket);
  const RecordNumber record = waiting->number;
  place(waiting);
  return record;
}

void BackgroundRunner::place(Waiting* waiting) {
  ++state_.waiting_count;
  state_.background->insert(waiting);
  if (due() == kTimeNever) state_.background->set_due(state_.now + kBackgroundEvery);
  // Only the first idle slice is asked, of the smallest pool that has one; on_due asks the others.
  for (const PoolId pool : view_.service(waiting->request.queue).pools) {
    if (const auto idle = view_.idle_slice(pool)) return run_on(*idle);
  }
}

void BackgroundRunner::run_on(SliceId id) {
  const SliceState& slice = state_.slices[id.index()];
  // The slice may have been taken by an online request since it was found idle.
  if (slice.status != SliceStatus::idle || slice.retiring || !slice.bound.empty()) return;
  const std::vector<Waiting*> members = state_.background->choose(view_, id);
  if (members.empty()) return;
  BatchDraft batch = state_.slices.draft(id);
  for (Waiting* waiting : members) {
    state_.background->erase(waiting);
    batch.add(waiting);
  }
  runner_.launch(id, batch);
}

void BackgroundRunner::on_due() {
  reject_all(state_.background->take_if([&](const Waiting& waiting) { return waiting.request.deadline <= state_.now; }),
             RejectReason::too_late);
  for (std::uint32_t p = 0; p < state_.deployment.pools.size(); ++p) {
    while (const auto idle = view_.idle_slice(PoolId(p))) {
      run_on(*idle);
      if (view_.slice(*idle).status != SliceStatus::idle) continue;
      if (state_.background->is_held_up(view_, PoolId(p))) doubt_corrections(PoolId(p));
      break;  // The pool's slack is used up: so it is for the rest.
    }
  }
  state_.background->set_due(state_.background->count() > 0 ? state_.now + kBackgroundEvery : kTimeNever);
}

// One stalled run makes all later ones of its bucket look slow. Online requests measure their run times again with every
// batch. If there are none, background requests would wait for ever behind a stall that is long over, so the corrections
// of the pool go back a step at a time, until a run fits and is measured.
void BackgroundRunner::doubt_corrections(PoolId pool) {
  for (const auto& entry : view_.pool_data(pool).services) {
    for (std::uint32_t bucket = 0; bucket < entry.batch_max.size(); ++bucket) {
      for (std::int32_t samples = 1; samples <= entry.batch_max[bucket]; ++samples) {
        // Counts of one class share a correction, which goes back once.
        if (samples > 1 && sample_class(samples) == sample_class(samples - 1)) continue;
        const auto mean = static_cast<double>(entry.latency.mean_ns(bucket, samples));
        const auto p99 = static_cast<double>(entry.latency.p99_ns(bucket, samples));
        state_.corrections.doubt(view_.row_of(pool, entry), bucket, samples, p99 / mean - 1);
      }
    }
  }
}

void BackgroundRunner::on_ending() {
  ending_ = true;
  reject_all(take_all(), RejectReason::no_capacity);
}

// no_capacity for all of them: that their buckets are still in the plan was settled when they were placed.
void BackgroundRunner::reject_untakable() {
  if (state_.background == nullptr) return;
  reject_all(state_.background->take_if([&](const Waiting& waiting) {
    return why_never(view_, waiting.request, waiting.bucket) != RejectReason::none;
  }),
             RejectReason::no_capacity);
}

std::vector<Waiting*> BackgroundRunner::take_all() {
  if (state_.background == nullptr) return {};
  return state_.background->take_if([](const Waiting&) { return true; });
}

void BackgroundRunner::reject_all(const std::vector<Waiting*>& rejected, RejectReason reason) {
  for (Waiting* waiting : rejected) {
    --state_.waiting_count;
    resolver_.reject(waiting, reason);
  }
}

}  // namespace tangram::sched

// The table of policies and the defaults of Policy. The defaults bind nothing and start nothing, so a policy overrides
// only what it decides.
#include "sched/policy.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace tangram::sched {

#define TANGRAM_POLICY(name, summary) std::unique_ptr<Policy> make_##name(const PolicyConfig&);
#include "sched/policies/policies.def"
#undef TANGRAM_POLICY

namespace {

constexpr PolicyInfo kPolicies[] = {
#define TANGRAM_POLICY(name, summary) {#name, summary, make_##name},
#include "sched/policies/policies.def"
#undef TANGRAM_POLICY
};

}  // namespace

std::span<const PolicyInfo> policies() { return kPolicies; }

const PolicyInfo* find_policy(std::string_view name) {
  for (const auto& policy : kPolicies) {
    if (policy.name == name) return &policy;
  }
  return nullptr;
}

Duration View::backlog_before(const Request& request) const {
  const ServiceState& service = state_->services[request.queue.index()];
  double before_ns = 0;
  each_occupied_lane(request.queue, [&](LaneId, const Lane& lane) {
    if (lane.late) return;
    before_ns += service.drain_ns[lane.bucket] * static_cast<double>(lane.queue.samples_before(request));
  });
  return Duration(static_cast<std::int64_t>(before_ns));
}

std::optional<Binding> Policy::bind(const View&, const Waiting&) { return std::nullopt; }

Displacement Policy::displace(const View&, const Request&, std::uint32_t) { return {}; }
Displacement Policy::relieve(const View&, SliceId) { return {}; }
Choice Policy::before_own(const View&, SliceId) { return Choice::wait(); }

// First come, first served: the front of the queue and those behind it that share its bucket, as long as the batch is
// allowed and the first member is in time.
std::uint32_t Policy::next_bound(const View& view, SliceId id) {
  const SliceState& slice = view.slice(id);
  const Waiting* first = slice.bound.front();
  const PoolId pool = slice.place.pool;
  const PoolService& entry = *view.pool_service(pool, first->request.queue);
  std::int32_t samples = first->request.samples;
  std::uint32_t take = 1;
  for (const Waiting* next = first->next; next != nullptr; next = next->next, ++take) {
    if (next->request.queue != first->request.queue || next->bucket != first->bucket) break;
    if (!view.may_share(next->request, first->request.size)) break;
    samples += next->request.samples;
    if (!entry.takes(first->bucket, samples)) break;
    if (view.now() + view.p99(pool, entry, first->bucket, samples) > first->request.deadline) break;
  }
  return take;
}

Choice Policy::on_waiting(const View&, LaneId) { return Choice::wait(); }
Choice Policy::on_idle(const View&, SliceId) { return Choice::wait(); }

std::uint32_t batch_in_time(const View& view, PoolId pool, LaneId id, bool merge) {
  const Lane& lane = view.lane(id);
  return batch_in_time_from(view, pool, lane, *lane.queue.front(), merge);
}

std::uint32_t batch_in_time_from(const View& view, PoolId pool, const Lane& lane, const Waiting& from, bool merge) {
  const Waiting* first = &from;
  const PoolService* entry = view.pool_service(pool, lane.service);
  const std::uint32_t bucket = lane.late ? first->bucket : lane.bucket;
  if (entry == nullptr || !entry->takes(bucket, first->request.samples)) return 0;
  if (!merge) return 1;
  // Only the first member's deadline is kept; the order of the lane puts the most urgent request first.
  const Duration slack = first->request.deadline - view.now();
  // A batch whose first member is late already has no deadline to keep: it may as well be full.
  const bool unrecoverable = view.p99(pool, *entry, bucket, first->request.samples) > slack;
  std::uint32_t take = 1;
  std::int32_t samples = first->request.samples;
  for (const Waiting* next = first->next; next != nullptr; next = next->next, ++take) {
    samples += next->request.samples;
    if (next->bucket != bucket || !entry->takes(bucket, samples)) break;
    if (!view.may_share(next->request, first->request.size)) break;
    if (!unrecoverable && view.p99(pool, *entry, bucket, samples) > slack) break;
  }
  return take;
}

namespace {

// A batch under construction.
struct Growing {
  std::int32_t samples = 0;
  TimePoint deadline = kTimeNever;

  void take(const Request& request) {
    samples += request.samples;
    deadline = std::min(deadline, request.deadline);
  }
};

// The front of a lane that may give requests to a batch of another.
struct Donor {
  LaneId lane;
  const Waiting* next = nullptr;
  std::uint32_t take = 0;
};

}  // namespace

void fill_across_samples(const View& view, PoolId pool, Duration run_max, Choice* choice) {
  const Choice::Part& own = choice->parts[0];
  const Lane& lane = view.lane(own.lane);
  const PoolService& entry = *view.pool_service(pool, lane.service);
  if (lane.late || entry.batch_max[lane.bucket] <= 1) return;
  std::array<Donor, Choice::kPartsMax> donors;
  std::size_t count = 0;
  view.each_occupied_lane(lane.service, [&](LaneId other, const Lane& candidate) {
    if (other == own.lane || candidate.late || candidate.bucket != lane.bucket || count + 1 == donors.size()) return;
    donors[count++] = {other, candidate.queue.front()};
  });
  if (count == 0) return;
  const Waiting* first = lane.queue.front();
  for (std::uint32_t n = 0; n < own.skip; ++n) first = first->next;
  Growing batch;
  const Waiting* member = first;
  for (std::uint32_t n = 0; n < own.take; ++n, member = member->next) batch.take(member->request);
  const bool late = view.now() + view.p99(pool, entry, lane.bucket, first->request.samples) > first->request.deadline;
  const auto fits = [&](const Waiting& next) {
    Growing grown = batch;
    grown.take(next.request);
    if (!entry.takes(lane.bucket, grown.samples) || !view.may_share(next.request, first->request.size)) return false;
    const Duration run = view.p99(pool, entry, lane.bucket, grown.samples);
    return (late || view.now() + run <= grown.deadline) && run <= run_max;
  };
  while (true) {
    Donor* best = nullptr;
    for (std::size_t i = 0; i < count; ++i) {
      Donor& donor = donors[i];
      if (donor.next == nullptr) continue;
      if (best != nullptr && donor.next->request.deadline >= best->next->request.deadline) continue;
      if (fits(*donor.next)) {
        best = &donor;
      } else {
        donor.next = nullptr;
      }
    }
    if (best == nullptr) break;
    batch.take(best->next->request);
    best->next = best->next->next;
    ++best->take;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (donors[i].take > 0) choice->add(donors[i].lane, donors[i].take);
  }
}

}  // namespace tangram::sched

// Which background requests may run, and for how long, without making online requests late.
//
// A batch cannot be interrupted, so an online request may have to wait for a whole background batch. Its length is
// limited to a share of the slack: the time that online requests had left when they ended.
#include "sched/background.h"

#include <algorithm>

namespace tangram::sched {
namespace {

// The share of the slack that a batch may take. What it takes is missing from the slack that is measured next, so with
// a share f the batches settle at f / (1 + f) of the slack there is without them: a third, and three sevenths.
constexpr double kSlackShare = 0.5;
constexpr double kSlackSharePressed = 0.75;
// How long it takes to forgive a whole Slo. Long enough to remember the bursts of traffic, short enough to use a lull.
constexpr double kForgiveS = 20;
// A pool whose online requests ended longer ago than this is not in use by them.
constexpr Duration kUnused = std::chrono::seconds(1);
// The slack of services that nothing is known about yet, as a share of their Slo.
constexpr double kSlackUnknown = 0.25;

Duration share_of(Duration whole, double share) {
  return Duration(static_cast<std::int64_t>(static_cast<double>(whole.count()) * share));
}

// The slack of a request of one sample that runs alone, in its slowest bucket, where `p99` says how long a sample of a
// bucket runs. It is the most slack there can be.
template <typename P99>
Duration slack_alone(const View& view, const PoolService& entry, P99&& p99) {
  Duration longest{};
  for (std::uint32_t b = 0; b < entry.batch_max.size(); ++b) {
    if (entry.batch_max[b] > 0) longest = std::max(longest, p99(b));
  }
  return view.service(entry.service).slo.latency - longest;
}

// By the run times as they are corrected now.
Duration slack_alone_now(const View& view, PoolId pool, const PoolService& entry) {
  return slack_alone(view, entry, [&](std::uint32_t bucket) { return view.p99(pool, entry, bucket, 1); });
}

// By the run times of the plan, for the service of the pool that has the least.
Duration slack_alone_planned(const View& view, PoolId pool) {
  Duration least = Duration::max();
  for (const auto& entry : view.pool_data(pool).services) {
    const auto p99 = [&](std::uint32_t bucket) { return Duration(entry.latency.p99_ns(bucket, 1)); };
    least = std::min(least, slack_alone(view, entry, p99));
  }
  return least;
}

// True if no online request waits for slices of the pool.
bool is_quiet(const View& view, PoolId pool) {
  if (view.pool(pool).backed_up.count > 0) return false;
  return std::ranges::all_of(view.pool_data(pool).services,
                             [&](const PoolService& entry) { return view.backlog(entry.service) == Duration::zero(); });
}

bool runs_before(const Request& a, const Request& b) {
  if (a.priority != b.priority) return a.priority > b.priority;
  return a.deadline != b.deadline ? a.deadline < b.deadline : a.id < b.id;
}

// Those from the front of `queue` that, with `samples` that are in the batch already, run in at most `run_max`.
std::vector<Waiting*> batch_within(const View& view, PoolId pool, const PoolService& entry, const RequestQueue& queue,
                                   std::int32_t samples, std::int64_t size, Duration run_max) {
  std::vector<Waiting*> members;
  for (Waiting* next = queue.front(); next != nullptr; next = next->next) {
    if (next->alone && samples > 0) break;
    samples += next->request.samples;
    if (!entry.takes(next->bucket, samples) || !view.may_share(next->request, size)) break;
    if (view.p99(pool, entry, next->bucket, samples) > run_max) break;
    members.push_back(next);
    if (next->alone) break;
  }
  return members;
}

}  // namespace

Background::Background(const State& state, bool merge) : merge_(merge) { resize(state); }

void Background::resize(const State& state) {
  const auto& services = state.deployment.services;
  queues_.assign(services.size(), {});
  slos_.clear();
  for (std::size_t s = 0; s < services.size(); ++s) {
    queues_[s].resize(services[s].edges.size());
    slos_.push_back(services[s].slo.latency);
    if (slacks_.size() <= s) slacks_.push_back({share_of(slos_[s], kSlackUnknown), state.now});
  }
}

// ---- Slack ----

Duration Background::slack(ServiceId service, TimePoint now) const {
  const Slack& slack = slacks_[service.index()];
  const Duration slo = slos_[service.index()];
  return std::min(slo, slack.value + share_of(slo, to_seconds(now - slack.at) / kForgiveS));
}

// Moves half of the way each time, so that one exception costs less than several low values.
void Background::lower(ServiceId service, Duration left, TimePoint now) {
  const Duration before = slack(service, now);
  slacks_[service.index()] = {before - std::max(before - left, Duration::zero()) / 2, now};
}

void Background::on_online_end(ServiceId service, Duration left, TimePoint now) { lower(service, left, now); }

void Background::on_online_loss(ServiceId service, TimePoint now) { lower(service, -slos_[service.index()], now); }

// The least slack of all services on the pool: any of them may send the request that has to wait.
Duration Background::run_max(const View& view, PoolId pool, bool pressed) const {
  Duration least = Duration::max();
  for (const auto& entry : view.pool_data(pool).services) {
    least = std::min({least, slack(entry.service, view.now()), slack_alone_now(view, pool, entry)});
  }
  return share_of(least, pressed ? kSlackSharePressed : kSlackShare);
}

// ---- Waiting requests ----

void Background::insert(Waiting* waiting) {
  queues_[waiting->request.queue.index()][waiting->bucket].insert(waiting);
  waiting->place = RecordPlace::background;
  ++count_;
}

void Background::erase(Waiting* waiting) {
  queues_[waiting->request.queue.index()][waiting->bucket].erase(waiting);
  --count_;
}

BackgroundOutlook Background::outlook(const View& view, ServiceId service) const {
  BackgroundOutlook best;
  bool found = false;
  // A pool where the request can run when idle is preferred to one where it never can.
  const auto rank = [](const BackgroundOutlook& o) {
    return std::pair(o.run_idle <= o.run_max_idle, o.run_max - o.run);
  };
  for (const auto& queue : queues_[service.index()]) {
    if (queue.empty()) continue;
    const Waiting& first = *queue.front();
    const bool pressed = first.request.priority == kPriorityBackgroundPressed;
    for (const PoolId pool : view.service(service).pools) {
      const PoolService* entry = view.pool_service(pool, service);
      if (entry == nullptr || !entry->takes(first.bucket, first.request.samples)) continue;
      const BackgroundOutlook here{.run = view.p99(pool, *entry, first.bucket, first.request.samples),
                                   .run_max = run_max(view, pool, pressed),
                                   .run_idle = Duration(entry->latency.p99_ns(first.bucket, first.request.samples)),
                                   .run_max_idle = share_of(slack_alone_planned(view, pool),
                                                            pressed ? kSlackSharePressed : kSlackShare),
                                   .online_waits = !is_quiet(view, pool)};
      if (!found || rank(here) > rank(best)) best = here;
      found = true;
    }
  }
  for (const auto& queue : queues_[service.index()]) best.waiting += queue.count();
  return best;
}

bool Background::is_held_up(const View& view, PoolId pool) const {
  if (!is_quiet(view, pool)) return false;
  bool waits = false;
  for (const auto& entry : view.pool_data(pool).services) {
    if (view.now() - slacks_[entry.service.index()].at < kUnused) return false;
    waits |= std::ranges::any_of(queues_[entry.service.index()], [](const RequestQueue& q) { return !q.empty(); });
  }
  return waits;
}

std::vector<Waiting*> Background::choose(const View& view, SliceId slice) const {
  const PoolId pool = view.slice(slice).place.pool;
  if (count_ == 0 || !is_quiet(view, pool)) return {};
  const Duration patient_max = run_max(view, pool, false);
  const Duration pressed_max = run_max(view, pool, true);
  const RequestQueue* best = nullptr;
  const PoolService* best_entry = nullptr;
  Duration best_max{};
  for (const auto& entry : view.pool_data(pool).services) {
    for (const auto& queue : queues_[entry.service.index()]) {
      if (queue.empty()) continue;
      const Waiting& first = *queue.front();
      const Duration limit = first.request.priority == kPriorityBackgroundPressed ? pressed_max : patient_max;
      if (!entry.takes(first.bucket, first.request.samples)) continue;
      if (view.p99(pool, entry, first.bucket, first.request.samples) > limit) continue;
      if (best != nullptr && !runs_before(first.request, best->front()->request)) continue;
      best = &queue;
      best_entry = &entry;
      best_max = limit;
    }
  }
  if (best == nullptr) return {};
  if (!merge_) return {best->front()};
  return batch_within(view, pool, *best_entry, *best, 0, best->front()->request.size, best_max);
}

std::vector<Waiting*> Background::fill(const View& view, PoolId pool, std::span<const Request* const> members,
                                       std::uint32_t bucket, std::int32_t samples) const {
  const ServiceId service = members.front()->queue;
  const RequestQueue& queue = queues_[service.index()][bucket];
  if (!merge_ || queue.empty() || !is_quiet(view, pool)) return {};
  Duration run = run_max(view, pool, queue.front()->request.priority == kPriorityBackgroundPressed);
  for (const Request* member : members) run = std::min(run, member->deadline - view.now());
  return batch_within(view, pool, *view.pool_service(pool, service), queue, samples, members.front()->size, run);
}

}  // namespace tangram::sched

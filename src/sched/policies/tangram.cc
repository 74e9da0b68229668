// Tangram's own policy: the smallest slice that meets the deadline, late requests aside, batches as the requests allow.
//
// 1. In bursts, requests of several samples are promised a place when they arrive. Their costs differ as much as their
//    numbers of samples, so when not all can be served, the place of each decides how many are. A service has bursts if
//    it lost far more than its Slo allows within the last hour. The policy tries, in this order: the smallest idle
//    slice that meets the deadline; the open batch of the bucket, if it still meets its first deadline with the request
//    in it (a batch that waits for its slice fills up for free); a new batch behind the work of the smallest slice that
//    still meets the deadline. While predictions come true, every promise is kept. ELSA promises in the same way, but
//    one request at a time.
//
//    Example: a 1g is idle and needs 30 ms for the request, a 7g is busy for 5 ms and needs 8 ms. With 40 ms left the
//    request goes to the 1g; with 20 ms left it waits for the 7g.
//
// 2. If no slice has room for such a request, others give way to it: the largest request of a queue, if that is larger
//    than the new one, and requests of lower priority in any case. On one machine, dropping the longest job is what
//    minimises the number of late jobs (Moore and Hodgson, 1968). The same happens when a slice has fallen behind.
//
// 3. Otherwise requests are promised nothing, and those of one sample never are, because they are all alike. They wait
//    together, and a slice that falls idle takes the largest batch that meets the first deadline in it: batches are
//    fuller than promised ones. It leaves requests alone that only a larger slice can serve in time. Services that
//    share slices wait in the same way, so that an idle slice sees every urgent request.
//
// 4. A request that no slice can serve in time is rejected, unless the Slo of its service has a late_limit. Then it is
//    set aside: it runs where a slice would be idle, or where it makes no request late that is promised a place there.
//    ELSA runs it in its turn, and each late request makes others late; this is most of the difference between the two.
//    It does not starve: when it must start to end by its limit, it goes before all else, and if it cannot end by then
//    any more, it is rejected.
//
// 5. A slice that falls idle and has no work of its own takes over the batch that has waited longest for an equal
//    slice, or for a smaller slice with a long queue. Predictions are not exact; an idle slice beside a queue shows it.

#include <algorithm>
#include <vector>

#include "sched/policy.h"

namespace tangram::sched {
namespace {

// A service counts as one of several samples while any of its last kMemory requests had more than one.
constexpr std::uint32_t kMemory = 256;
// How many requests a slice looks past that it cannot end in time. It bounds the cost of a decision in a long queue.
constexpr std::uint32_t kLookPast = 64;
// A slice takes work from smaller ones once their shortest queue fills this share of the Slo. From 0 to 0.7 it makes no
// difference of more than 1 %; it is there so that a large slice is not filled with what a small one ends in time.
constexpr double kTakeOverAt = 0.5;
// A batch counts as full if it serves this share of the requests a second that the largest would.
constexpr double kFullRate = 0.98;
// Where more than this share of a service's requests is lost, the overload is no passing one, and to keep all deadlines
// that can be kept is not the aim any more: ...
constexpr double kDeepLoss = 0.025;
// ... a batch that serves this much more in the same time then goes before one that must start first. Over 85 random
// scenarios 1.2 and 2 were no better.
constexpr double kFarMore = 1.5;
// A service that loses this share of its requests beyond what its Slo allows has bursts, ...
constexpr double kBurstLoss = 0.1;
// ... and is expected to have more of them for this long.
constexpr Duration kBurstMemory = std::chrono::hours(1);
// A late request goes before all else once only this share of its Slo is left to spare, and the time in which one of
// the slices that end it soonest falls idle.
constexpr double kLateSpare = 0.07;
// The limit of late requests, in Slos, where none may be dropped and the Slo gives none.
constexpr double kLateLimit = 3;

// One class of more than 30 functions, because its seven decisions must judge "in time" and "gives way" in the same way:
// most functions are small static predicates that several decisions share.
class Tangram final : public Policy {
 public:
  explicit Tangram(const PolicyConfig& config) : config_(config) {}

  bool binds() const override { return true; }
  bool gives_up() const override { return config_.drop_unrecoverable; }

  std::optional<Binding> bind(const View& view, const Waiting& waiting) override {
    const bool single = note_samples(waiting.request);
    note_bursts(view, waiting.request.queue);
    if (config_.merge && (single || waits_together(view, waiting.request.queue))) return std::nullopt;
    if (const auto idle = idle_in_time(view, waiting, Sure::yes)) return idle;
    if (config_.merge) {
      if (const auto open = open_batch(view, waiting)) return open;
    }
    if (const auto behind = behind_work(view, waiting, Sure::yes)) return behind;
    // Likely in time is better than rejected.
    if (const auto idle = idle_in_time(view, waiting, Sure::no)) return idle;
    return behind_work(view, waiting, Sure::no);
  }

  // Looks for victims on the slice of each pool that is free first: there the least excess has to be saved. Of all
  // pools, the one whose first victim costs most is chosen, since that frees the most time per lost request.
  Displacement displace(const View& view, const Request& request, std::uint32_t bucket) override {
    if (waits_in_lane(view, request)) return {};
    Displacement best;
    Duration best_cost{};
    for (const PoolId pool : view.service(request.queue).pools) {
      const auto& slices = view.pool(pool).by_free_time;
      const PoolService& entry = *view.pool_service(pool, request.queue);
      if (slices.empty() || !entry.takes(bucket, request.samples)) continue;
      const Duration run = view.p99(pool, entry, bucket, request.samples);
      const Duration excess = view.now() + view.wait_for(view.slice(slices.front())) + run - request.deadline;
      const Displacement way = who_gives_way(view, slices.front(), request, bucket, excess);
      if (way.count == 0) continue;
      const Request& first = way.victims[0]->request;
      const PoolService& its = *view.pool_service(pool, first.queue);
      const Duration cost = view.mean(pool, its, way.victims[0]->bucket, first.samples);
      if (best.count > 0 && cost <= best_cost) continue;
      best_cost = cost;
      best = way;
    }
    return best;
  }

  // The slice has fallen behind its promises. Up to the first batch that would end late, the largest request of the
  // lowest priority gives way.
  Displacement relieve(const View& view, SliceId id) override {
    TimePoint end = view.now();
    const Waiting* given_up = nullptr;
    for (const Waiting* w = view.slice(id).bound.front(); w != nullptr;) {
      TimePoint deadline = kTimeNever;
      do {
        end += Duration(w->bound_cost_ns);
        deadline = std::min(deadline, w->request.deadline);
        if (given_up == nullptr || gives_way_before(*w, *given_up)) given_up = w;
        w = w->next;
      } while (w != nullptr && !w->opens_batch);
      if (end > deadline) return {id, given_up};
    }
    return {};
  }

  Choice before_own(const View& view, SliceId slice) override {
    const PoolId pool = view.slice(slice).place.pool;
    for (const auto& entry : view.pool_data(pool).services) {
      const LaneId late = view.late_lane(entry.service);
      const Waiting* first = view.lane(late).queue.front();
      if (first == nullptr) continue;
      if (past_saving(view, *first)) return Choice::drop(late);
      if (!may_run_late(view, pool, *first)) continue;
      if (must_start(view, *first) || fits_before_own(view, slice, *first)) return start_late(view, slice, late);
    }
    return Choice::wait();
  }

  // The first batch, with those behind it as long as all are in time: a batch that was full by its deadline when it was
  // promised may have time to spare when its slice is free early, and one run costs less than two.
  std::uint32_t next_bound(const View& view, SliceId id) override {
    const SliceState& slice = view.slice(id);
    const PoolId pool = slice.place.pool;
    const Waiting* first = slice.bound.front();
    const PoolService& entry = *view.pool_service(pool, first->request.queue);
    BatchSum batch = sum_batch(first);
    for (const Waiting* next = batch.end; next != nullptr; next = batch.end) {
      if (next->request.queue != first->request.queue || next->bucket != first->bucket) break;
      if (!view.may_share(next->request, first->request.size)) break;
      const BatchSum both = sum_of(batch, sum_batch(next));
      if (!entry.takes(both.bucket, both.samples)) break;
      if (view.now() + view.p99(pool, entry, both.bucket, both.samples) > both.deadline) break;
      batch = both;
    }
    return batch.count;
  }

  Choice on_waiting(const View& view, LaneId id) override {
    const Lane& lane = view.lane(id);
    if (lane.late) return serve_late(view, id);
    bool possible = false;
    for (const PoolId pool : view.service(lane.service).pools) {
      if (view.pool(pool).present == 0 || !may_be_in_time(view, pool, *lane.queue.front())) continue;
      possible = true;
      const auto idle = view.idle_slice(pool);
      if (idle && in_time(view, pool, *lane.queue.front()))
        return Choice::start(*idle, id, batch_in_time(view, pool, id, config_.merge));
    }
    if (!possible || !config_.merge) return set_aside(view, id);
    Choice choice = past_first(view, id);
    // Slices with promises to keep may stay busy for long, so the lane is asked again when its first request is late.
    if (choice.kind == Choice::Kind::wait && !waits_in_lane(view, lane.queue.front()->request)) {
      choice.until = latest_start(view, *lane.queue.front()) + Duration(1);
    }
    return choice;
  }

  Choice on_idle(const View& view, SliceId slice) override {
    const PoolId pool = view.slice(slice).place.pool;
    bool left = false;
    const Choice shared = from_lanes(view, slice, pool, &left);
    if (shared.kind != Choice::Kind::wait) return shared;
    if (left) {
      const Choice other = on_another(view, pool);
      if (other.kind != Choice::Kind::wait) return other;
    }
    for (const auto& entry : view.pool_data(pool).services) {
      const LaneId late = view.late_lane(entry.service);
      const Waiting* first = view.lane(late).queue.front();
      if (first == nullptr) continue;
      if (past_saving(view, *first)) return Choice::drop(late);
      if (may_run_late(view, pool, *first)) return start_late(view, slice, late);
    }
    const std::uint32_t backed_up = view.pool(pool).backed_up.first;
    if (backed_up != SliceState::kNone) return Choice::steal(slice, SliceId(backed_up));
    return take_over(view, slice, pool);
  }

 private:
  // ---- Requests of one sample ----

  // Remembers the samples of the service's requests; true if they have held one sample for long.
  bool note_samples(const Request& request) {
    if (request.queue.index() >= since_several_.size()) since_several_.resize(request.queue.index() + 1, kMemory);
    std::uint32_t& since = since_several_[request.queue.index()];
    since = request.samples > 1 ? 0 : std::min(since + 1, kMemory);
    return since >= kMemory;
  }

  void note_bursts(const View& view, ServiceId service) {
    if (service.index() >= bursts_until_.size()) bursts_until_.resize(service.index() + 1, kTimeZero);
    const double allowed = 1 - view.service(service).slo.percentile / 100;
    if (view.lost_share(service) > allowed + kBurstLoss) bursts_until_[service.index()] = view.now() + kBurstMemory;
  }

  // True for a service whose requests wait in lanes whatever they hold: it shares slices with others, or has no bursts.
  bool waits_together(const View& view, ServiceId service) const {
    if (shares_slices(view, service)) return true;
    if (config_.bursts_expected) return false;
    return service.index() >= bursts_until_.size() || view.now() >= bursts_until_[service.index()];
  }

  static bool shares_slices(const View& view, ServiceId service) {
    return std::ranges::any_of(view.service(service).pools,
                               [&](PoolId pool) { return view.pool_data(pool).services.size() > 1; });
  }

  // True for a request that gets no promise. Unlike note_samples it changes nothing, so displace() may ask at any time.
  bool waits_in_lane(const View& view, const Request& request) const {
    if (!config_.merge) return false;
    const std::size_t service = request.queue.index();
    const std::uint32_t since = service < since_several_.size() ? since_several_[service] : kMemory;
    return (request.samples == 1 && since + 1 >= kMemory) || waits_together(view, request.queue);
  }

  // By the p99, or by the mean only.
  enum class Sure : bool { no, yes };

  static Duration run_time(const View& view, PoolId pool, const PoolService& entry, const Waiting& waiting, Sure sure) {
    return sure == Sure::yes ? view.p99(pool, entry, waiting.bucket, waiting.request.samples)
                             : view.mean(pool, entry, waiting.bucket, waiting.request.samples);
  }

  // The last instant at which some slice that is there could start the request and end it in time.
  static TimePoint latest_start(const View& view, const Waiting& waiting) {
    TimePoint latest = view.now();
    for (const PoolId pool : view.service(waiting.request.queue).pools) {
      const PoolService& entry = *view.pool_service(pool, waiting.request.queue);
      if (view.pool(pool).present == 0 || !entry.takes(waiting.bucket, waiting.request.samples)) continue;
      latest = std::max(latest, waiting.request.deadline - run_time(view, pool, entry, waiting, Sure::yes));
    }
    return latest;
  }

  static bool in_time(const View& view, PoolId pool, const Waiting& waiting, Sure sure = Sure::yes) {
    const PoolService* entry = view.pool_service(pool, waiting.request.queue);
    if (entry == nullptr || !entry->takes(waiting.bucket, waiting.request.samples)) return false;
    return view.now() + run_time(view, pool, *entry, waiting, sure) <= waiting.request.deadline;
  }

  // True if the slices of `pool` can end the request in time, or never could be sure to but are likely to: likely in
  // time is better than rejected. A request that a sure slice could have ended in time, had it started sooner, does not
  // count: it would take the time of the requests behind it.
  static bool may_be_in_time(const View& view, PoolId pool, const Waiting& waiting) {
    if (in_time(view, pool, waiting)) return true;
    if (!in_time(view, pool, waiting, Sure::no)) return false;
    const Request& request = waiting.request;
    const PoolService& entry = *view.pool_service(pool, request.queue);
    return run_time(view, pool, entry, waiting, Sure::yes) > request.deadline - request.arrival;
  }

  // True if they should start it now: no slice that is sure will be free soon enough behind the `ahead` that wait
  // before it, or this one is.
  static bool worth_starting(const View& view, PoolId pool, const Waiting& waiting, std::uint32_t ahead) {
    if (in_time(view, pool, waiting)) return true;
    return may_be_in_time(view, pool, waiting) && !behind_work(view, waiting, Sure::yes, ahead).has_value();
  }

  // A batch that a slice could run, as others compare with it.
  struct Offer {
    int priority = 0;
    bool is_short = false;
    ServiceId service;
    TimePoint start;  // The last instant at which it is still in time.
    double rate = 0;  // Requests in time for each nanosecond, where the service loses many; otherwise zero.
  };

  // Higher priority first, then services that miss their Slo before those that may still lose requests: the Slos decide
  // which requests are lost when not all can be served. Within a service that loses many anyway, the costly requests
  // should be the lost ones, so a batch that serves far more in the same time goes first.
  // Otherwise the batch that must start first goes first.
  static bool goes_before(const Offer& a, const Offer& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.is_short != b.is_short) return a.is_short;
    if (a.service == b.service && a.rate > kFarMore * b.rate) return true;
    if (a.service == b.service && b.rate > kFarMore * a.rate) return false;
    return a.start < b.start;
  }

  // The batch that goes first, of those that this slice can end in time. Sets `left` if it leaves a lane to other
  // slices.
  Choice from_lanes(const View& view, SliceId slice, PoolId pool, bool* left) {
    Choice best = Choice::wait();
    Offer best_offer;
    const auto& services = view.pool_data(pool).services;
    for (const auto& entry : services) {
      const bool is_short = services.size() > 1 && view.is_short(entry.service);
      view.each_occupied_lane(entry.service, [&](LaneId id, const Lane& lane) {
        if (lane.late || best.kind == Choice::Kind::demote || best.kind == Choice::Kind::drop) return;
        const Waiting* first = lane.queue.front();
        if (!in_time(view, pool, *first) && !possible(view, *first)) {
          note_loss(view, entry.service);
          best = set_aside(view, id);
          return;
        }
        if (holds_up(view, lane)) {
          best = set_aside(view, id);
          return;
        }
        std::uint32_t skip = 0;
        while (first != nullptr && skip < kLookPast && !worth_starting(view, pool, *first, skip)) {
          first = first->next;
          ++skip;
        }
        if (first == nullptr || skip == kLookPast) {
          *left = true;
          return;
        }
        Offer offer{first->request.priority, is_short, entry.service,
                    first->request.deadline - view.p99(pool, entry, first->bucket, first->request.samples)};
        const bool by_rate = loses(view, first->request) && view.lost_share(entry.service) > kDeepLoss;
        if (!by_rate && best.part_count > 0 && !goes_before(offer, best_offer)) return;
        Choice choice = fullest(view, slice, pool, entry, id, {first, skip});
        if (by_rate) {
          offer.rate = rate_of(view, pool, entry, {first, skip}, choice.parts[0].take, 0);
          if (best.part_count > 0 && !goes_before(offer, best_offer)) return;
        }
        // A batch that is only likely to be in time stays alone.
        if (config_.merge && in_time(view, pool, *first)) {
          fill_across_samples(view, pool, patience_of_others(view, pool, entry), &choice);
        }
        borrow(view, pool, entry, lane, *first, &choice);
        best = choice;
        best_offer = offer;
      });
    }
    return best;
  }

  // What waited for this slice and comes too late for it, on another slice that is idle. That slice is not asked again
  // by itself: it was idle already when the request preferred to wait.
  [[gnu::cold]] Choice on_another(const View& view, PoolId pool) const {
    Choice best = Choice::wait();
    for (const auto& entry : view.pool_data(pool).services) {
      view.each_occupied_lane(entry.service, [&](LaneId id, const Lane& lane) {
        if (!lane.late && best.kind == Choice::Kind::wait) best = past_first(view, id);
      });
    }
    return best;
  }

  // True if the first of the lane keeps batches so small, on every slice, that more are lost than it. While all that
  // arrives can be served, serving each request is best. But a queue that has grown old gives its first members to
  // small batches, the slices then serve less than what arrives, and the queue stays old: requests are lost all along,
  // and only the batch size decides how many. So while some are lost, the requests that prevent full batches are lost
  // first; the queue is soon young again, and the losses stop.
  bool holds_up(const View& view, const Lane& lane) const {
    const Waiting& first = *lane.queue.front();
    if (!config_.merge || lane.queue.count() < 2 || !loses(view, first.request)) return false;
    return std::ranges::none_of(view.service(lane.service).pools, [&](PoolId pool) {
      const PoolService& entry = *view.pool_service(pool, lane.service);
      if (view.pool(pool).present == 0 || !in_time(view, pool, first)) return false;
      const auto take = batch_in_time_from(view, pool, lane, first, true);
      const auto samples = static_cast<std::int64_t>(take) * first.request.samples;
      const auto waiting = static_cast<std::int64_t>(lane.queue.count() - 1) * first.request.samples;
      const auto full = std::min<std::int64_t>(waiting, entry.batch_max[first.bucket]);
      if (samples >= full) return true;
      return samples_per_ns(view, pool, entry, first.bucket, samples) >=
             kFullRate * samples_per_ns(view, pool, entry, first.bucket, full);
    });
  }

  static double samples_per_ns(const View& view, PoolId pool, const PoolService& entry, std::uint32_t bucket,
                               std::int64_t samples) {
    const Duration run = view.mean(pool, entry, bucket, static_cast<std::int32_t>(samples));
    return static_cast<double>(samples) / static_cast<double>(run.count());
  }

  void note_loss(const View& view, ServiceId service) {
    if (service.index() >= lost_at_.size()) lost_at_.resize(service.index() + 1, kTimeNever);
    lost_at_[service.index()] = view.now();
  }

  // True within an Slo of a loss.
  bool loses(const View& view, const Request& request) const {
    const std::size_t service = request.queue.index();
    if (service >= lost_at_.size() || lost_at_[service] == kTimeNever) return false;
    return view.now() - lost_at_[service] <= request.deadline - request.arrival;
  }

  struct Position {
    const Waiting* first;
    std::uint32_t skip;
  };

  // The first of the lane waits for a larger slice that is busy. Idle ones may run what is behind it.
  Choice past_first(const View& view, LaneId id) const {
    const Lane& lane = view.lane(id);
    for (const PoolId pool : view.service(lane.service).pools) {
      const auto idle = view.idle_slice(pool);
      if (!idle) continue;
      Position at{lane.queue.front(), 0};
      while (at.first != nullptr && at.skip < kLookPast && !worth_starting(view, pool, *at.first, at.skip)) {
        at = {at.first->next, at.skip + 1};
      }
      if (at.first == nullptr || at.skip == kLookPast) continue;
      return fullest(view, *idle, pool, *view.pool_service(pool, lane.service), id, at);
    }
    return Choice::wait();
  }

  // The batch from `from` on, or from further back. A first member with little time left keeps the batch small, and a
  // slice that runs small batches falls further behind; passing over a few can serve more in time. Each one passed over
  // counts as lost.
  Choice fullest(const View& view, SliceId slice, PoolId pool, const PoolService& entry, LaneId id,
                 Position from) const {
    const Lane& lane = view.lane(id);
    if (!in_time(view, pool, *from.first)) return Choice::start(slice, id, 1, from.skip);  // Likely, but alone only.
    std::uint32_t best_take = batch_in_time_from(view, pool, lane, *from.first, config_.merge);
    Position best = from;
    if (!config_.merge || from.skip + best_take >= lane.queue.count())
      return Choice::start(slice, id, best_take, best.skip);
    double best_rate = rate_of(view, pool, entry, from, best_take, 0);
    Position next = from;
    for (std::uint32_t passed = 1; passed <= kLookPast && next.first != nullptr; ++passed) {
      next = {next.first->next, next.skip + 1};
      if (next.first == nullptr || (passed & (passed - 1)) != 0) continue;  // 1, 2, 4, 8, ... are tried.
      if (!in_time(view, pool, *next.first)) continue;
      const std::uint32_t take = batch_in_time_from(view, pool, lane, *next.first, true);
      const double rate = rate_of(view, pool, entry, next, take, passed);
      if (rate <= best_rate) continue;
      best_rate = rate;
      best_take = take;
      best = next;
    }
    return Choice::start(slice, id, best_take, best.skip);
  }

  // How long a slice may be kept from the other services that it runs: half of their shortest promise.
  static Duration patience_of_others(const View& view, PoolId pool, const PoolService& entry) {
    Duration patience = Duration::max();
    for (const auto& other : view.pool_data(pool).services) {
      if (other.service != entry.service) patience = std::min(patience, view.service(other.service).slo.latency / 2);
    }
    return patience;
  }

  // Fills a short batch with requests of the next smaller bucket, as long as that costs the slice no more than their
  // share of a full batch of their own. They are padded further, which the prediction for the larger bucket charges.
  // Compared with running alone, which is dearer, it costs 0.2 % of the highest rate, because near that rate batches
  // fill by themselves.
  void borrow(const View& view, PoolId pool, const PoolService& entry, const Lane& lane, const Waiting& first,
              Choice* choice) const {
    const auto taken = choice->parts[0].take;
    if (!config_.merge || choice->part_count > 1 || lane.bucket == 0 ||
        &lane != &view.first_lane(lane.service, lane.bucket))
      return;
    if (choice->parts[0].skip + taken < lane.queue.count()) return;
    if (view.service(lane.service).padding == Padding::none) return;
    const Lane& smaller = view.first_lane(lane.service, lane.bucket - 1);
    const std::uint32_t bucket = lane.bucket;
    const Duration slack = first.request.deadline - view.now();
    const auto before = static_cast<std::int32_t>(taken);
    const std::int32_t full = entry.batch_max[bucket - 1];
    if (full == 0) return;
    const Duration share = view.mean(pool, entry, bucket - 1, full) / full;
    std::uint32_t borrowed = 0;
    for (const Waiting* next = smaller.queue.front(); next != nullptr; next = next->next) {
      const std::int32_t more = static_cast<std::int32_t>(borrowed) + 1;
      if (!entry.takes(bucket, before + more)) break;
      if (view.p99(pool, entry, bucket, before + more) > std::min(slack, next->request.deadline - view.now())) break;
      const Duration extra = view.mean(pool, entry, bucket, before + more) - view.mean(pool, entry, bucket, before);
      if (extra > more * share) break;
      ++borrowed;
    }
    if (borrowed > 0) choice->add(view.first_lane_id(lane.service, bucket - 1), borrowed);
  }

  // Requests in time for each nanosecond of the slice.
  static double rate_of(const View& view, PoolId pool, const PoolService& entry, Position at, std::uint32_t take,
                        std::uint32_t lost) {
    std::int32_t samples = 0;
    const Waiting* member = at.first;
    for (std::uint32_t n = 0; n < take; ++n, member = member->next) samples += member->request.samples;
    const Duration run = view.mean(pool, entry, at.first->bucket, samples);
    return (static_cast<double>(take) - static_cast<double>(lost)) / static_cast<double>(run.count());
  }

  // Slices that are away for now count: what they alone can end in time waits for them.
  static bool possible(const View& view, const Waiting& waiting) {
    const auto& pools = view.service(waiting.request.queue).pools;
    return std::any_of(pools.rbegin(), pools.rend(),
                       [&](PoolId pool) { return view.pool(pool).present > 0 && may_be_in_time(view, pool, waiting); });
  }

  // ---- Requests of several samples ----

  static std::optional<Binding> idle_in_time(const View& view, const Waiting& waiting, Sure sure) {
    for (const PoolId pool : view.service(waiting.request.queue).pools) {
      const auto idle = view.idle_slice(pool);
      if (idle && in_time(view, pool, waiting, sure)) return Binding{*idle};
    }
    return std::nullopt;
  }

  // Own bucket first; in a batch of the next larger bucket the request is padded further, which is charged, and may
  // still be cheaper than a batch of its own.
  static std::optional<Binding> open_batch(const View& view, const Waiting& waiting) {
    const std::size_t buckets = view.service(waiting.request.queue).edges.size();
    for (std::uint32_t bucket = waiting.bucket; bucket < buckets && bucket <= waiting.bucket + 1; ++bucket) {
      const SliceId id = view.first_lane(waiting.request.queue, bucket).open_slice;
      if (joinable(view, view.slice(id), waiting, bucket)) return Binding{id, true};
    }
    return std::nullopt;
  }

  static bool joinable(const View& view, const SliceState& slice, const Waiting& waiting, std::uint32_t bucket) {
    const OpenBatch& tail = slice.bound.tail();
    if (tail.samples == 0 || tail.service != waiting.request.queue || tail.bucket != bucket || !serves(slice))
      return false;
    const PoolId pool = slice.place.pool;
    const PoolService& entry = *view.pool_service(pool, tail.service);
    const std::int32_t samples = tail.samples + waiting.request.samples;
    if (!entry.takes(bucket, samples) || !view.may_share(waiting.request, tail.size)) return false;
    const Duration before = view.mean(pool, entry, bucket, tail.samples);
    if (bucket != waiting.bucket) {
      if (!entry.takes(waiting.bucket, waiting.request.samples)) return false;
      const Duration alone = view.mean(pool, entry, waiting.bucket, waiting.request.samples);
      if (view.mean(pool, entry, bucket, samples) - before > alone) return false;
    }
    // The slice's wait includes the open batch itself, which is replaced by the larger one.
    const Duration wait = view.wait_for(slice) - before;
    return view.now() + wait + view.p99(pool, entry, bucket, samples) <=
           std::min(tail.deadline, waiting.request.deadline);
  }

  // Each of the `ahead` requests that wait for the same slices is taken to run alone, as long as this one.
  static std::optional<Binding> behind_work(const View& view, const Waiting& waiting, Sure sure,
                                            std::uint32_t ahead = 0) {
    const Duration left = waiting.request.deadline - view.now();
    for (const PoolId pool : view.service(waiting.request.queue).pools) {
      const auto& slices = view.pool(pool).by_free_time;
      const PoolService& entry = *view.pool_service(pool, waiting.request.queue);
      if (slices.empty() || !entry.takes(waiting.bucket, waiting.request.samples)) continue;
      const Duration run = run_time(view, pool, entry, waiting, sure);
      const Duration queue = run * ahead / static_cast<std::int64_t>(slices.size());
      if (view.wait_for(view.slice(slices.front())) + queue + run <= left) return Binding{slices.front()};
    }
    return std::nullopt;
  }

  // A batch in the queue of a slice.
  struct BatchSum {
    std::uint32_t count = 0;
    std::int32_t samples = 0;
    std::uint32_t bucket = 0;
    TimePoint deadline = kTimeNever;
    const Waiting* end = nullptr;  // The first that is not in it.
  };

  static BatchSum sum_batch(const Waiting* first) {
    BatchSum sum{0, 0, 0, kTimeNever, first};
    do {
      ++sum.count;
      sum.samples += sum.end->request.samples;
      sum.bucket = std::max(sum.bucket, sum.end->bucket);
      sum.deadline = std::min(sum.deadline, sum.end->request.deadline);
      sum.end = sum.end->next;
    } while (sum.end != nullptr && !sum.end->opens_batch);
    return sum;
  }

  static BatchSum sum_of(const BatchSum& a, const BatchSum& b) {
    return {a.count + b.count, a.samples + b.samples, std::max(a.bucket, b.bucket), std::min(a.deadline, b.deadline),
            b.end};
  }

  // The request of lower priority gives way first; among equals, the one that costs its slice more time.
  static bool gives_way_before(const Waiting& a, const Waiting& b) {
    if (a.request.priority != b.request.priority) return a.request.priority < b.request.priority;
    return a.bound_cost_ns > b.bound_cost_ns;
  }

  // Those who give way to `request` in the queue of the slice, where `excess` too much waits: the largest of its own
  // service and priority if that is larger than it, otherwise as many of lower priority, the last first, as it takes.
  static Displacement who_gives_way(const View& view, SliceId id, const Request& request, std::uint32_t bucket,
                                    Duration excess) {
    const SliceState& slice = view.slice(id);
    // From the back: the last requests were promised the latest starts, so the fewest other promises change.
    Displacement lower(id);
    Duration lower_saved{};
    const Waiting* w = slice.bound.back();
    for (std::uint32_t n = 0; w != nullptr && n < kLookPast && lower.count < Displacement::kVictimsMax; ++n) {
      if (w->request.priority < request.priority && lower_saved < excess) {
        lower.victims[lower.count++] = w;
        lower_saved += Duration(w->bound_cost_ns);
      }
      w = w->previous;
    }
    if (lower.count > 0 && lower_saved >= excess) return lower;
    const Waiting* largest = largest_bound(view, slice, request, bucket, excess);
    return largest == nullptr ? Displacement{} : Displacement(id, largest);
  }

  static const Waiting* largest_bound(const View& view, const SliceState& slice, const Request& request,
                                      std::uint32_t bucket, Duration excess) {
    const PoolId pool = slice.place.pool;
    const PoolService& entry = *view.pool_service(pool, request.queue);
    const Waiting* largest = nullptr;
    Duration largest_cost = view.mean(pool, entry, bucket, request.samples);
    std::uint32_t looked = 0;
    for (const Waiting* w = slice.bound.front(); w != nullptr && looked < kLookPast;) {
      const BatchSum batch = sum_batch(w);
      looked += batch.count;
      for (; w != batch.end; w = w->next) {
        if (w->request.queue != request.queue || w->request.priority > request.priority) continue;
        const Duration cost = view.mean(pool, entry, w->bucket, w->request.samples);
        // Removing a member saves only the difference between two batch sizes, which is less than its cost alone.
        const std::int32_t rest = batch.samples - w->request.samples;
        const Duration saved = view.mean(pool, entry, batch.bucket, batch.samples) -
                               (rest > 0 ? view.mean(pool, entry, batch.bucket, rest) : Duration::zero());
        if (cost <= largest_cost || saved < excess) continue;
        largest = w;
        largest_cost = cost;
      }
    }
    return largest;
  }

  // The first batch that waits for a slice of another pool where much waits.
  static Choice take_over(const View& view, SliceId slice, PoolId pool) {
    for (const auto& entry : view.pool_data(pool).services) {
      for (const PoolId other : view.service(entry.service).pools) {
        const std::uint32_t from = view.pool(other).backed_up.first;
        if (other == pool || from == SliceState::kNone) continue;
        const Waiting* first = view.slice(SliceId(from)).bound.front();
        const Duration slo = first->request.deadline - first->request.arrival;
        const Duration wait = view.wait_for(view.slice(view.pool(other).by_free_time.front()));
        const bool much = static_cast<double>(wait.count()) >= kTakeOverAt * static_cast<double>(slo.count());
        const BatchSum batch = sum_batch(first);
        if (!much || first->request.queue != entry.service || !entry.takes(batch.bucket, batch.samples)) continue;
        if (view.now() + view.p99(pool, entry, batch.bucket, batch.samples) <= batch.deadline)
          return Choice::steal(slice, SliceId(from));
      }
    }
    return Choice::wait();
  }

  // ---- Late requests ----

  Choice set_aside(const View& view, LaneId lane) const {
    const bool answers_late = !config_.drop_unrecoverable || view.service(view.lane(lane).service).slo.late_limit > 1;
    return answers_late ? Choice::demote(lane) : Choice::drop(lane);
  }

  Choice serve_late(const View& view, LaneId id) const {
    const Lane& lane = view.lane(id);
    if (past_saving(view, *lane.queue.front())) return Choice::drop(id);
    for (const PoolId pool : view.service(lane.service).pools) {
      const auto idle = view.idle_slice(pool);
      if (idle && may_run_late(view, pool, *lane.queue.front())) return start_late(view, *idle, id);
    }
    return Choice::wait();
  }

  // When a late request should have ended.
  static TimePoint limit_of(const View& view, const Request& request) {
    if (view.service(request.queue).slo.late_limit > 1) return view.last_deadline(request);
    return request.arrival + times(kLateLimit, request.deadline - request.arrival);
  }

  static Duration times(double factor, Duration d) {
    return Duration(static_cast<std::int64_t>(factor * static_cast<double>(d.count())));
  }

  static Duration shortest_run(const View& view, const Waiting& waiting) {
    const PoolId pool = largest_for(view, waiting);
    const PoolService& entry = *view.pool_service(pool, waiting.request.queue);
    if (!entry.takes(waiting.bucket, waiting.request.samples)) return Duration::zero();  // Its slices are away.
    return view.mean(pool, entry, waiting.bucket, waiting.request.samples);
  }

  // True for a late request that no slice can end by its limit any more.
  bool past_saving(const View& view, const Waiting& waiting) const {
    return config_.drop_unrecoverable && view.now() + shortest_run(view, waiting) > limit_of(view, waiting.request);
  }

  // True if a late request has to start soon, on the largest slices that take it, to end by its limit.
  static bool must_start(const View& view, const Waiting& waiting) {
    const Request& request = waiting.request;
    const auto slices = static_cast<std::int64_t>(view.pool(largest_for(view, waiting)).by_free_time.size());
    const Duration run = shortest_run(view, waiting);
    const Duration spare =
        times(kLateSpare, request.deadline - request.arrival) + run / std::max<std::int64_t>(1, slices);
    return view.now() + run + spare >= limit_of(view, request);
  }

  // True if everything in the queue of the slice is still in time after the run of a late request.
  static bool fits_before_own(const View& view, SliceId id, const Waiting& waiting) {
    const PoolId pool = view.slice(id).place.pool;
    const PoolService& entry = *view.pool_service(pool, waiting.request.queue);
    TimePoint end = view.now() + view.p99(pool, entry, waiting.bucket, waiting.request.samples);
    for (const Waiting* w = view.slice(id).bound.front(); w != nullptr;) {
      const BatchSum batch = sum_batch(w);
      for (; w != batch.end; w = w->next) end += Duration(w->bound_cost_ns);
      if (end > batch.deadline) return false;
    }
    return true;
  }

  // A small slice on which a late request would miss its limit is left alone, unless no larger one takes it.
  static bool may_run_late(const View& view, PoolId pool, const Waiting& waiting) {
    const PoolService* entry = view.pool_service(pool, waiting.request.queue);
    if (entry == nullptr || !entry->takes(waiting.bucket, waiting.request.samples)) return false;
    if (pool == largest_for(view, waiting)) return true;
    return view.now() + view.mean(pool, *entry, waiting.bucket, waiting.request.samples) <=
           limit_of(view, waiting.request);
  }

  // The last pool that has slices for it.
  static PoolId largest_for(const View& view, const Waiting& waiting) {
    const auto& pools = view.service(waiting.request.queue).pools;
    const auto found = std::find_if(pools.rbegin(), pools.rend(), [&](PoolId pool) {
      return !view.pool(pool).by_free_time.empty() &&
             view.pool_service(pool, waiting.request.queue)->takes(waiting.bucket, waiting.request.samples);
    });
    return found == pools.rend() ? pools.back() : *found;
  }

  Choice start_late(const View& view, SliceId slice, LaneId lane) const {
    return Choice::start(slice, lane, batch_in_time(view, view.slice(slice).place.pool, lane, config_.merge));
  }

  PolicyConfig config_;
  std::vector<std::uint32_t> since_several_;  // By service: requests since one that held several samples.
  std::vector<TimePoint> bursts_until_;       // By service: how long it is expected to have bursts.
  std::vector<TimePoint> lost_at_;            // By service: when a request could be in time no more.
};

}  // namespace

std::unique_ptr<Policy> make_tangram(const PolicyConfig& config) { return std::make_unique<Tangram>(config); }

}  // namespace tangram::sched

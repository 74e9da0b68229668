// Turns the arrivals of all services into requests, one event at a time.
//
// An open source has one arrival in the event queue; the next is drawn when it comes. So memory does not depend on the
// length of the run. A closed loop has one arrival per client, and the next follows the answer.

#include "sim/request_feed.h"

#include <algorithm>

#include "sim/event_kind.h"

namespace tangram::sim {
namespace {

// A client of a closed loop whose request was rejected or failed waits this long before its next one. Without the pause
// a client with no think time would ask for ever in the same instant, and virtual time would not advance.
constexpr Duration kRejectedPause = std::chrono::milliseconds(1);

// The tag of a client's arrival holds its content: the number of samples in the lower 20 bits, the size above. Neither
// is 0, so a tag of 0 means that the content is in pending_.
constexpr int kSampleBits = 20;

}  // namespace

RequestFeed::RequestFeed(const Workload& workload, const RequestLimits& limits, const Rng& rng, EventQueue& queue)
    : workload_(workload), limits_(limits), queue_(queue), tenant_rng_(rng.stream("tenants")) {
  for (std::size_t s = 0; s < workload.services.size(); ++s) {
    sources_.emplace_back(workload.services[s], rng, s, limits.rate_scale);
    pending_.emplace_back();
  }
}

void RequestFeed::start() {
  for (std::uint32_t s = 0; s < sources_.size(); ++s) {
    if (sources_[s].closed_loop()) {
      while (const auto arrival = sources_[s].next()) push_client(s, *arrival);
    } else {
      push_next(s);
    }
  }
}

// A source draws even if the arrival is cut off by the duration; that draw is its last.
void RequestFeed::push_next(std::uint32_t service) {
  if (full()) return;
  const auto arrival = sources_[service].next();
  if (!arrival || cut_off(*arrival)) return;
  pending_[service] = {arrival->size, arrival->samples};
  ++pending_count_;
  queue_.push(arrival->at, EventLane::arrival, kArrival, service, 0);
}

void RequestFeed::push_client(std::uint32_t service, const Arrival& arrival) {
  if (full() || cut_off(arrival)) return;
  ++pending_count_;
  const std::uint64_t tag =
      (static_cast<std::uint64_t>(arrival.size) << kSampleBits) | static_cast<std::uint64_t>(arrival.samples);
  queue_.push(arrival.at, EventLane::arrival, kArrival, service, tag);
}

void RequestFeed::ask_again(const Request& request, OutcomeKind kind, TimePoint now) {
  const bool answered = kind == OutcomeKind::served || kind == OutcomeKind::late;
  const std::uint32_t service = request.service.value();
  push_client(service, sources_[service].after_answer(answered ? now : now + kRejectedPause));
}

bool RequestFeed::cut_off(const Arrival& arrival) {
  // Remembered, because counted() then measures up to the end of the duration and not up to the last arrival.
  const bool too_late = arrival.at.time_since_epoch() > limits_.duration;
  cut_off_ = cut_off_ || too_late;
  return too_late;
}

// Flattened, like MetricsRecorder::start and resolve: it runs for every request, and the calls inside would cost 1 %.
TenantId RequestFeed::deal() {
  const double factor = limits_.first_tenant_factor;
  if (factor == 1) return TenantId(static_cast<std::uint32_t>(tenant_rng_.below(limits_.tenants)));
  const auto others = static_cast<double>(limits_.tenants - 1);
  const double drawn = tenant_rng_.uniform() * (factor + others);
  if (drawn < factor) return TenantId(0);
  return TenantId(1 + static_cast<std::uint32_t>(std::min(drawn - factor, others - 0.5)));
}

[[gnu::flatten]] Request RequestFeed::arrive(const Event& event) {
  --pending_count_;
  const std::uint32_t service = event.index;
  Content content = pending_[service];
  if (event.tag != 0) {
    content.size = static_cast<std::int64_t>(event.tag >> kSampleBits);
    content.samples = static_cast<std::int32_t>(event.tag & ((1U << kSampleBits) - 1));
  }
  Request request;
  request.id = RequestId(made_++);
  request.service = ServiceId(service);
  // With one tenant nothing is drawn.
  if (limits_.tenants > 1) request.tenant = deal();
  request.priority = workload_.services[service].priority;
  request.samples = content.samples;
  request.size = content.size;
  request.arrival = event.when;
  request.deadline = event.when + workload_.services[service].slo.latency;
  last_arrival_ = event.when;
  // The counted time begins at the last request of the warm-up.
  if (made_ <= limits_.warmup_requests) counted_from_ = event.when;
  // Only open sources have a next arrival now; a client's follows its answer.
  if (event.tag == 0) push_next(service);
  return request;
}

bool RequestFeed::in_first_half(TimePoint now) const {
  // The limit by number takes precedence over the one by duration, as in share_done().
  if (limits_.requests_max != UINT64_MAX) return made_ * 2 <= limits_.requests_max;
  return now.time_since_epoch() * 2 <= limits_.duration;
}

double RequestFeed::share_done(TimePoint now) const {
  double share = 0;
  if (limits_.requests_max != UINT64_MAX) {
    share = static_cast<double>(made_) / static_cast<double>(limits_.requests_max);
  } else if (limits_.duration != Duration::max()) {
    share = to_seconds(now) / to_seconds(limits_.duration);
  }
  return std::min(1.0, share);
}

// Time after the last arrival does not count, or a rate would depend on how long the last batch takes.
Duration RequestFeed::counted(TimePoint last_end, bool whole) const {
  if (made_ <= limits_.warmup_requests) return Duration::zero();
  const TimePoint until = cut_off_ && whole ? TimePoint(limits_.duration) : last_arrival_;
  return until > counted_from_ ? until - counted_from_ : last_end - counted_from_;
}

}  // namespace tangram::sim

// Translates between a call, in the words of the protocols, and a request, in those of the scheduler.
//
// Deadlines: the protocols have times relative to the arrival, the scheduler has instants. Priorities: the protocol
// counts from 1, the highest, downwards; in the scheduler a larger number goes first. Outcomes: each reason becomes a
// status that tells the client what to do next: change the request (invalid), wait and retry (refused, unavailable), or
// neither (failed).

#include "serve/call_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "sched/background.h"

namespace tangram::serve {
namespace {

// Priorities that a request names lie above those that services have by default: 1 becomes 999,999. Values are capped
// at 998,000, so the lowest is 2,000.
constexpr std::int64_t kPriorityLevels = 1'000'000;

// The deadline of a background request that sets none. The Slo of the service does not apply to it.
constexpr Duration kBackgroundPatience = std::chrono::seconds(60);

std::int32_t priority_of(const Call& call) {
  if (call.background > 0) {
    return call.background == 1 ? sched::kPriorityBackground : sched::kPriorityBackgroundPressed;
  }
  if (call.priority == 0) return call.model->priority;
  return static_cast<std::int32_t>(kPriorityLevels - std::min(call.priority, kPriorityLevels - 2000));
}

// How long a client should wait before it retries a request that would have been late: by how much the earliest
// possible answer misses its deadline. At least 1 ms, since zero means "unknown". Without an estimate it is one second.
Duration retry_after(const Request& request, const Outcome& outcome) {
  if (outcome.earliest == kTimeNever) return std::chrono::seconds(1);
  return std::max<Duration>(outcome.earliest - request.deadline, std::chrono::milliseconds(1));
}

// A failure of our own is INTERNAL. If a remote server had no room, the client did nothing wrong and can retry.
void explain_failure(Call& call) {
  call.error = fmt::format("model '{}': {}", call.model->name,
                           call.failure.empty() ? "the slice that ran the request failed" : call.failure);
  if (call.upstream_retry_after == Duration::zero()) return;
  call.status = CallStatus::unavailable;
  call.retry_after = call.upstream_retry_after;
}

// The queue that was full can be the remote server's: then its message and its waiting time are passed on.
void explain_queue_full(Call& call) {
  call.status = CallStatus::refused;
  if (call.upstream_retry_after > Duration::zero()) {
    call.error = fmt::format("model '{}': {}", call.model->name, call.failure);
    call.retry_after = call.upstream_retry_after;
    return;
  }
  call.retry_after = std::chrono::seconds(1);
  call.error = "too many requests are queued";
}

}  // namespace

TimePoint deadline_of(const Call& call, Duration promised) {
  if (call.background > 0) promised = kBackgroundPatience;
  // Saturates: a client can send a deadline that would overflow.
  Duration after = call.deadline.value_or(promised);
  if (call.patience) after = std::min(after, *call.patience);
  return add_saturating(call.arrived, after);
}

Request request_of(const Call& call, Duration promised, TimePoint now) {
  Request request;
  request.id = call.request;
  request.service = call.model->service;
  request.tenant = call.tenant;
  request.priority = priority_of(call);
  request.samples = call.samples;
  request.size = call.size;
  request.arrival = now;
  request.deadline = deadline_of(call, promised);
  return request;
}

void explain_unanswered(Call& call, const Request& request, const Outcome& outcome, bool never_in_time) {
  call.answer.clear();
  call.answer_ends.clear();
  call.status = CallStatus::failed;
  if (outcome.kind == OutcomeKind::failed) return explain_failure(call);
  if (outcome.kind == OutcomeKind::abandoned) {
    call.status = CallStatus::abandoned;
    call.error = "the caller has gone";
    return;
  }
  switch (outcome.reason) {
    case RejectReason::too_late:
      call.status = CallStatus::refused;
      call.error = fmt::format("model '{}': no slice can answer within {:.3f} ms", call.model->name,
                               to_milliseconds(request.deadline - request.arrival));
      // Waiting would not help such a request, so it gets no Retry-After.
      if (never_in_time) {
        call.error += ", not even an idle one";
      } else {
        call.retry_after = retry_after(request, outcome);
      }
      return;
    case RejectReason::queue_full: return explain_queue_full(call);
    // The request is at fault, not the load: a retry would fail in the same way.
    case RejectReason::too_large:
      call.status = CallStatus::invalid;
      call.error = fmt::format("model '{}': no slice of the plan accepts {} samples of size {}", call.model->name,
                               request.samples, request.size);
      return;
    case RejectReason::no_capacity:
      call.status = CallStatus::unavailable;
      call.retry_after = std::chrono::seconds(1);
      call.error = fmt::format("model '{}': no slice serves this model now", call.model->name);
      return;
    case RejectReason::over_rate:
      call.status = CallStatus::refused;
      call.retry_after = std::chrono::seconds(1);
      call.error = fmt::format("model '{}': more requests than its shared slices are planned for", call.model->name);
      return;
    case RejectReason::none: return;
  }
}

}  // namespace tangram::serve

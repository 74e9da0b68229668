#include "serve/call_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "sched/background.h"

namespace tangram::serve {
namespace {

// Priorities of requests that name one lie above those that do not, the highest first.
constexpr std::int64_t kPriorityLevels = 1'000'000;

// How long a request in the background waits that says nothing of it.
constexpr Duration kBackgroundPatience = std::chrono::seconds(60);

std::int32_t priority_of(const Call& call) {
  if (call.background > 0) {
    return call.background == 1 ? sched::kPriorityBackground : sched::kPriorityBackgroundPressed;
  }
  if (call.priority == 0) return call.model->priority;
  return static_cast<std::int32_t>(kPriorityLevels - std::min(call.priority, kPriorityLevels - 2000));
}

// How long a client should wait that was refused because it would have been late: until there was room for it.
Duration retry_after(const Request& request, const Outcome& outcome) {
  if (outcome.earliest == kTimeNever) return std::chrono::seconds(1);
  return std::max<Duration>(outcome.earliest - request.deadline, std::chrono::milliseconds(1));
}

void explain_failure(Call& call) {
  call.error = fmt::format("model '{}': {}", call.model->name,
                           call.failure.empty() ? "the slice that ran the request failed" : call.failure);
  if (call.rejected_upstream == Duration::zero()) return;
  call.status = CallStatus::unavailable;
  call.retry_after = call.rejected_upstream;
}

void explain_queue_full(Call& call) {
  call.status = CallStatus::refused;
  if (call.rejected_upstream > Duration::zero()) {
    call.error = fmt::format("model '{}': {}", call.model->name, call.failure);
    call.retry_after = call.rejected_upstream;
    return;
  }
  call.retry_after = std::chrono::seconds(1);
  call.error = "too many requests wait";
}

}  // namespace

TimePoint deadline_of(const Call& call, Duration promised) {
  if (call.background > 0) promised = kBackgroundPatience;
  return add_saturating(call.arrived, call.deadline.value_or(promised));
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
  switch (outcome.reason) {
    case RejectReason::too_late:
      call.status = CallStatus::refused;
      call.error = fmt::format("model '{}': no slice can answer within {:.3f} ms", call.model->name,
                               to_milliseconds(request.deadline - request.arrival));
      if (never_in_time) {
        call.error += ", not even an idle one";
      } else {
        call.retry_after = retry_after(request, outcome);
      }
      return;
    case RejectReason::queue_full: return explain_queue_full(call);
    case RejectReason::too_large:
      call.status = CallStatus::invalid;
      call.error = fmt::format("model '{}': no slice of the plan takes {} samples of size {}", call.model->name,
                               request.samples, request.size);
      return;
    case RejectReason::no_capacity:
      call.status = CallStatus::unavailable;
      call.retry_after = std::chrono::seconds(1);
      call.error = fmt::format("model '{}': no slice serves it now", call.model->name);
      return;
    case RejectReason::none: return;
  }
}

}  // namespace tangram::serve

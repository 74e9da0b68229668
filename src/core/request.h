// One request and how it ended.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "core/ids.h"

namespace tangram {

struct Request {
  RequestId id;
  ServiceId service;
  TenantId tenant;
  std::int32_t priority = 0;  // Larger goes first among requests of one service.
  std::int32_t samples = 1;   // How many inputs it holds; they run in one batch.
  std::int64_t size = 1;      // Input size of each sample, before padding.
  TimePoint arrival;
  TimePoint deadline;
};

enum class OutcomeKind : std::uint8_t {
  served,    // Answered by its deadline.
  late,      // Answered after it.
  rejected,  // Refused before it ran: it could not have been in time, or a limit was reached.
  failed,    // It ran, or was about to, and the slice or the engine failed.
};

enum class RejectReason : std::uint8_t {
  none,
  too_late,     // No slice can answer by the deadline.
  queue_full,   // The limit of waiting requests is reached.
  too_large,    // No bucket or batch of the plan takes it.
  no_capacity,  // The plan has no slice for the service now.
};

struct Outcome {
  OutcomeKind kind = OutcomeKind::served;
  RejectReason reason = RejectReason::none;
  // For a rejected request: the earliest instant at which an answer could have been ready, or kTimeNever.
  TimePoint earliest = kTimeNever;
};

}  // namespace tangram

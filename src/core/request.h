// One request and how it ended.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

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
  // The service in whose queues it waits and in whose batches it runs: its own, or the one that DeployedService::joins
  // names. The scheduler sets it when the request arrives.
  ServiceId queue = {};
};

enum class OutcomeKind : std::uint8_t {
  served,     // Answered by its deadline.
  late,       // Answered after it.
  rejected,   // Refused before it ran: it could not have been in time, or a limit was reached.
  failed,     // It ran, or was about to, and the slice or the engine failed.
  abandoned,  // Its caller has gone, so nobody waits for the answer.
};

inline constexpr std::array kOutcomeKinds{OutcomeKind::served, OutcomeKind::late, OutcomeKind::rejected,
                                          OutcomeKind::failed, OutcomeKind::abandoned};

enum class RejectReason : std::uint8_t {
  none,         // The request was not rejected.
  too_late,     // No slice can answer by the deadline.
  queue_full,   // The limit of waiting requests is reached.
  too_large,    // No bucket or batch of the plan takes it.
  no_capacity,  // The plan has no slice for the service now.
  over_rate,    // The service shares slices and exceeds the rate that the plan has room for.
};

inline constexpr std::array kRejectReasons{RejectReason::none,      RejectReason::too_late,    RejectReason::queue_full,
                                           RejectReason::too_large, RejectReason::no_capacity, RejectReason::over_rate};

// Where a tally by outcome or by reason counts this one.
constexpr std::size_t index_of(OutcomeKind kind) { return static_cast<std::size_t>(kind); }
constexpr std::size_t index_of(RejectReason reason) { return static_cast<std::size_t>(reason); }

// The enumerator's name: "served", "queue_full". Logs, metrics, reports and JSON keys all use it.
std::string_view to_string(OutcomeKind kind);
std::string_view to_string(RejectReason reason);

struct Outcome {
  OutcomeKind kind = OutcomeKind::served;
  RejectReason reason = RejectReason::none;
  // For a rejected request: the earliest instant at which an answer could have been ready, or kTimeNever.
  TimePoint earliest = kTimeNever;
};

}  // namespace tangram

// Names of outcomes. They are part of metrics and JSON, so they must not change.

#include "core/request.h"

namespace tangram {

// Without a default, so that the compiler names the function that a new enumerator has to be added to.
std::string_view to_string(OutcomeKind kind) {
  switch (kind) {
    case OutcomeKind::served: return "served";
    case OutcomeKind::late: return "late";
    case OutcomeKind::rejected: return "rejected";
    case OutcomeKind::failed: return "failed";
    case OutcomeKind::abandoned: return "abandoned";
  }
  return "";
}

std::string_view to_string(RejectReason reason) {
  switch (reason) {
    case RejectReason::none: return "none";
    case RejectReason::too_late: return "too_late";
    case RejectReason::queue_full: return "queue_full";
    case RejectReason::too_large: return "too_large";
    case RejectReason::no_capacity: return "no_capacity";
    case RejectReason::over_rate: return "over_rate";
  }
  return "";
}

}  // namespace tangram

// The messages that are posted to the LiveWorld, whatever the protocol: inference requests, and control calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "core/ids.h"
#include "core/request.h"
#include "core/tensor.h"
#include "serve/memory_budget.h"
#include "serve/served_model.h"

namespace tangram::serve {

// A tensor that came with a request, as raw little-endian bytes.
struct CallInput {
  std::string_view data;
  bool given = false;  // Otherwise it is a mask that the gateway makes.
};

struct CallOutput {
  std::size_t index = 0;     // Into the signature's outputs.
  bool binary = false;       // As bytes behind the JSON, not as numbers in it.
  std::int32_t classes = 0;  // Not 0: the largest so many elements of each sample instead of all; see classify().
};

// How a call ended, in terms of the protocols.
enum class CallStatus : std::uint8_t {
  ok,
  invalid,          // The request makes no sense: 400, INVALID_ARGUMENT.
  not_found,        // 404, NOT_FOUND.
  refused,          // It would have been late, or a queue is full: 429, RESOURCE_EXHAUSTED.
  unavailable,      // No slice serves it now: 503, UNAVAILABLE.
  failed,           // It ran, or was about to, and failed: 500, INTERNAL.
  unsupported,      // 501, UNIMPLEMENTED.
  unauthenticated,  // The caller is unknown: 401, UNAUTHENTICATED.
  forbidden,        // The caller is known and not allowed: 403, PERMISSION_DENIED.
  abandoned,        // The caller has gone, and nobody reads this: 499 in the log, CANCELLED.
};

class LiveWorld;
struct Call;
struct ControlCall;
struct TenantState;

// Receives the answer to an inference request.
class CallOwner {
 public:
  virtual ~CallOwner() = default;
  // The call is answered. Called on the thread of the LiveWorld; the call is the owner's again.
  virtual void on_answered(Call* call) = 0;
};

// One inference request. The owner fills in the question, and does not touch the call from Inbox::post() until
// CallOwner::on_answered().
struct Call {
  // The question.
  CallOwner* owner = nullptr;
  const ServedModel* model = nullptr;
  std::string id;
  std::string body;                 // What the inputs point into, ...
  std::string converted;            // ... or into this, where they came as text.
  std::vector<CallInput> inputs;    // By the signature.
  std::vector<CallOutput> outputs;  // In the order of the answer.
  std::int32_t samples = 1;
  std::int64_t extent = 1;           // Length of the variable axes.
  std::int64_t size = 1;             // What it is scheduled as.
  std::int64_t priority = 0;         // As the protocol has it: 0 the model's own, 1 the highest.
  int background = 0;                // 1: it runs where online requests leave room; 2: the same, and its time is short.
  std::optional<Duration> deadline;  // After its arrival. Nothing: the service's promise.
  // How long the caller waits after the arrival, as far as it has said so (grpc-timeout). Bounds the deadline, also
  // that of the promise.
  std::optional<Duration> patience;
  std::string traceparent;
  TenantId tenant;                      // 0 without access control.
  TenantState* tenant_state = nullptr;  // Whose request in flight this is.
  std::int64_t quota_day = -1;          // The day of the quota that it uses, since 1970; -1: it uses none.
  // What the server holds for it: its body, what that becomes, and its answer. The owner's thread, and whoever reads
  // the request for it.
  Charge memory;

  // The answer.
  CallStatus status = CallStatus::ok;
  std::string error;
  std::string failure;                   // Why its last run was not answered; it may run again.
  Duration upstream_retry_after{};       // If that was for want of room: when it may be sent again. Zero: it was not.
  Duration retry_after{};                // For a refused call; zero: unknown.
  std::string answer;                    // Outputs of the signature one after the other, raw.
  std::vector<std::size_t> answer_ends;  // Of each output.

  // How it went.
  RequestId request;
  std::uint32_t record = 0;  // Of the scheduler; see sched::Scheduler::on_abandoned.
  TimePoint arrived;
  TimePoint launched;
  Duration compute{};
  SliceId slice;
  std::uint32_t bucket = 0;
  std::int64_t padded_size = 0;
  std::int32_t batch_samples = 0;

  // Resets the call for the next request and keeps its memory.
  void clear();
};

// Work for the thread of the LiveWorld, the only one that may read or change the world.
using ControlWork = std::function<void(LiveWorld&, ControlCall&)>;

// Is notified when the work is done.
class ControlOwner {
 public:
  virtual ~ControlOwner() = default;
  // The work is done. Called on the thread of the LiveWorld; the call is the owner's again.
  virtual void on_controlled(ControlCall* call) = 0;
};

// A question about the world, or a change of it, other than inference. Handled in turn with inference requests, in the
// order in which both were posted.
struct ControlCall {
  ControlOwner* owner = nullptr;
  ControlWork work;
  CallStatus status = CallStatus::ok;  // Set by the work, ...
  std::string answer;                  // ... as is this: the text of the answer, where there is one.
};

}  // namespace tangram::serve

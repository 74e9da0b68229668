// One inference request on its way through the gateway, whatever protocol it came by.
#pragma once

#include <atomic>
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
#include "core/workload.h"

namespace tangram::serve {

// A number that every thread may read while one changes it.
class SharedNumber {
 public:
  SharedNumber(std::int32_t value) : value_(value) {}  // NOLINT(google-explicit-constructor): it is one.
  SharedNumber(const SharedNumber& other) : value_(static_cast<std::int32_t>(other)) {}
  SharedNumber& operator=(const SharedNumber& other) { return *this = static_cast<std::int32_t>(other); }
  SharedNumber& operator=(std::int32_t value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  operator std::int32_t() const {
    return value_.load(std::memory_order_relaxed);
  }  // NOLINT(google-explicit-constructor)

 private:
  std::atomic<std::int32_t> value_;
};

// A service as clients see it: they call it a model.
struct ServedModel {
  ServiceId service;
  std::string name;
  std::string network;   // What the measurements call the model.
  std::string platform;  // The engine.
  Signature signature;
  std::int64_t size_fixed = 1;   // The input size of requests that say nothing of it, where no axis tells.
  SharedNumber samples_max = 1;  // Of one request, by the plan in force.
  std::int32_t priority = 0;
};

// The one version that every model has.
inline constexpr std::string_view kModelVersion = "1";

// A tensor that came with a request, as raw little-endian bytes.
struct CallInput {
  std::string_view data;
  bool given = false;  // Otherwise it is a mask that the gateway makes.
};

struct CallOutput {
  std::size_t index = 0;  // Into the signature's outputs.
  bool binary = false;    // As bytes behind the JSON, not as numbers in it.
};

// How a call ended, in the words of the protocols.
enum class CallStatus : std::uint8_t {
  ok,
  invalid,          // The request makes no sense: 400, INVALID_ARGUMENT.
  not_found,        // 404, NOT_FOUND.
  refused,          // It could not have been in time, or too much waits: 429, RESOURCE_EXHAUSTED.
  unavailable,      // No slice serves it now: 503, UNAVAILABLE.
  failed,           // It ran, or was about to, and failed: 500, INTERNAL.
  unsupported,      // 501, UNIMPLEMENTED.
  unauthenticated,  // Nobody knows who calls: 401, UNAUTHENTICATED.
  forbidden,        // It is known, and not allowed: 403, PERMISSION_DENIED.
};

class LiveWorld;
struct Call;
struct TenantState;

// Who waits for the answer.
class CallOwner {
 public:
  virtual ~CallOwner() = default;
  // The call is answered. Called on the thread of the LiveWorld; the call is the owner's again.
  virtual void on_answered(Call* call) = 0;
};

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
  std::string traceparent;
  TenantId tenant;                      // 0 where nobody is asked.
  TenantState* tenant_state = nullptr;  // Whose request in flight this is.
  // Instead of all this: something to do on the thread of the LiveWorld, which fills in `answer`.
  std::function<void(LiveWorld&, Call&)> control;

  // The answer.
  CallStatus status = CallStatus::ok;
  std::string error;
  std::string failure;     // Why its last run was not answered; it may run again.
  Duration turned_away{};  // If that was for want of room: when it may be sent again. Zero: it was not.
  Duration retry_after{};  // For a refused call; zero: unknown.
  std::string answer;      // Outputs of the signature one after the other, raw; or the text of a control call.
  std::vector<std::size_t> answer_ends;  // Of each output.

  // How it went.
  RequestId request;
  TimePoint arrived;
  TimePoint launched;
  Duration compute{};
  SliceId slice;
  std::uint32_t bucket = 0;
  std::int64_t padded_size = 0;
  std::int32_t batch_samples = 0;

  // For the owner.
  void* context = nullptr;
  std::uint64_t context_serial = 0;
  std::uint64_t context_bytes = 0;

  // As new, but with the memory that it has.
  void clear();
};

}  // namespace tangram::serve

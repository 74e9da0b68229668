// The steps from a request to the world, the same for every protocol:
//
//   identify    who calls, by a key or a certificate             401
//   authorise   whether they may ask this                        403
//   limit       the tenant's rate and requests in flight         429
//   read        whether the request makes sense to its model     400, 404
//   account     one request of the tenant's quota of today       429
//
// The caller is authenticated before anything is read, and an invalid request uses no quota. A protocol calls
// identify() and then, for inference, admit(); in between it may wait for the body. Any thread; the only lock is that
// of Access::table().
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "host/event_loop.h"
#include "serve/access.h"
#include "serve/gateway.h"
#include "serve/infer_request.h"

namespace tangram::serve {

// The caller, from identify() until the request is posted or refused.
struct Caller {
  std::shared_ptr<const AccessTable> table = {};  // Keeps the tenant alive.
  const TenantRule* tenant = nullptr;             // Null: no access control, or unknown.
};

class Frontdoor {
 public:
  // Both outlive it.
  Frontdoor(Gateway& gateway, const host::LiveClock& clock) : gateway_(gateway), clock_(clock) {}

  // Identify and authorise: the reason to deny the caller, or nullopt. `show(Credentials&)` is called where callers are
  // asked; it answers a denial of its own if the credentials are ambiguous. Null model: the request names none.
  template <typename Show>
  std::optional<AccessDenial> identify(AccessNeed need, const ServedModel* model, Show&& show, Caller& caller) {
    if (!gateway_.access.on() || need == AccessNeed::nothing) return std::nullopt;
    Credentials shown;
    if (std::optional<AccessDenial> unclear = show(shown)) return unclear;
    return identify_by(shown, need, model, caller);
  }

  // Limit, read and account, of an inference request whose caller was not denied: the reason to refuse it, or nullopt,
  // and then the call is one of the tenant's in flight until leave(). `read(Call&)` fills in the call and answers its
  // CallProblem, if any. Requires the call's model (null: unknown) and traceparent, for the record of a refusal.
  template <typename Read>
  std::optional<AccessDenial> admit(const Caller& caller, Call& call, Read&& read) {
    AccessTime time;
    if (auto denial = limit(caller, call, time)) return denial;
    return account(caller, call, time, read(call));
  }
  // The same in two parts, for a request that is read in between, maybe by another thread: the limits of the tenant,
  // ...
  std::optional<AccessDenial> limit(const Caller& caller, Call& call, AccessTime& time) {
    if (caller.tenant == nullptr) return std::nullopt;
    time = {clock_.now(), wall_seconds()};
    if (auto denial = begin_request(*caller.tenant, time)) return refuse(caller, call, std::move(*denial));
    call.tenant_state = caller.tenant->state;
    call.tenant = call.tenant_state->id;
    return std::nullopt;
  }
  // ... and its account. `problem`: of the request that was read.
  std::optional<AccessDenial> account(const Caller& caller, Call& call, const AccessTime& time,
                                      std::optional<CallProblem> problem) {
    if (problem) return refuse(caller, call, {problem->status, std::move(problem->message), {}});
    if (caller.tenant == nullptr) return std::nullopt;
    cap_request(caller.tenant->said, call);
    if (auto denial = use_quota(*caller.tenant, time)) return refuse(caller, call, std::move(*denial));
    if (caller.tenant->said.quota_per_day) call.quota_day = quota_day(time);
    return std::nullopt;
  }

  // Ends the call's share in its tenant's requests in flight. Further calls do nothing.
  static void leave(Call& call) {
    if (call.tenant_state != nullptr) end_request(*std::exchange(call.tenant_state, nullptr));
  }

  // Counts and logs an inference request that identify() has denied. What is not known is null or empty.
  void tell_of_denied(const AccessDenial& denial, const Caller& caller, const ServedModel* model,
                      std::string_view traceparent, std::string_view id = {});

 private:
  static std::int64_t wall_seconds() {
    return std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1);
  }
  // Identify and authorise by what was shown. Sets caller.tenant where it is known, denied or not.
  std::optional<AccessDenial> identify_by(const Credentials& shown, AccessNeed need, const ServedModel* model,
                                          Caller& caller);
  // Ends the request of a call that is not admitted, and reports it.
  AccessDenial refuse(const Caller& caller, Call& call, AccessDenial denial);

  Gateway& gateway_;
  const host::LiveClock& clock_;
};

}  // namespace tangram::serve

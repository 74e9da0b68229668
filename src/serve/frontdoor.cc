// The steps of the front door that need no protocol. The templates in the header call them with what HTTP or gRPC has
// extracted.

#include "serve/frontdoor.h"

namespace tangram::serve {

std::optional<AccessDenial> Frontdoor::identify_by(const Credentials& shown, AccessNeed need, const ServedModel* model,
                                                   Caller& caller) {
  Access& access = gateway_.access;
  // The table is kept by the caller: a reload during the request replaces it, and `tenant` points into the old one.
  caller.table = access.table();
  AccessDenial denial;
  caller.tenant = caller.table->identify(shown, wall_seconds(), denial.message);
  if (caller.tenant != nullptr) return why_forbidden(*caller.tenant, need, model);
  // Without a tenant there is no one to count this for, so it goes to a common counter.
  access.unauthenticated.fetch_add(1, std::memory_order_relaxed);
  return denial;
}

AccessDenial Frontdoor::refuse(const Caller& caller, Call& call, AccessDenial denial) {
  // The request may have been counted as one of its tenant's in flight already. leave() does nothing otherwise.
  leave(call);
  tell_of_denied(denial, caller, call.model, call.traceparent, call.id);
  return denial;
}

void Frontdoor::tell_of_denied(const AccessDenial& denial, const Caller& caller, const ServedModel* model,
                               std::string_view traceparent, std::string_view id) {
  RefusedRequest refused{refusal_of(denial), http_status(denial.status), denial.message, model};
  refused.id = id;
  if (caller.tenant != nullptr) refused.tenant = caller.tenant->said.name;
  refused.traceparent = traceparent;
  gateway_.tell_of_refused(refused);
}

}  // namespace tangram::serve

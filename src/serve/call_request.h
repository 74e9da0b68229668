// Between a call and the request that the scheduler knows: what it is scheduled as, and why it has no answer.
#pragma once

#include "core/request.h"
#include "serve/call.h"

namespace tangram::serve {

// When the call is too late. `promised` is the service's promise, for calls that set no deadline.
TimePoint deadline_of(const Call& call, Duration promised);

// The request that a call is scheduled as. It arrives now: a call that was held has waited until there was a scheduler
// to take it, and keeps its deadline.
Request request_of(const Call& call, Duration promised, TimePoint now);

// Writes why there is no answer into the call, in words and as a status of the protocols. Requires an outcome without
// an answer. `never_in_time`: the time of the client is too short for the run itself, so that to wait is no use.
void explain_unanswered(Call& call, const Request& request, const Outcome& outcome, bool never_in_time);

}  // namespace tangram::serve

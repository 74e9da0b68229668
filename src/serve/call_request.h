// Between a call and the request that the scheduler knows: what it is scheduled as, and why it has no answer.
#pragma once

#include "core/request.h"
#include "serve/call.h"

namespace tangram::serve {

// The deadline of the call. `promised` is the latency of the service's Slo, for calls that set no deadline.
TimePoint deadline_of(const Call& call, Duration promised);

// The request that a call is scheduled as. It arrives now: a call that was held could not be scheduled earlier, and
// keeps its deadline.
Request request_of(const Call& call, Duration promised, TimePoint now);

// Sets the error and the status of a call without an answer. Requires such an outcome. `never_in_time`: the client's
// time is too short for the run itself, so that waiting does not help.
void explain_unanswered(Call& call, const Request& request, const Outcome& outcome, bool never_in_time);

}  // namespace tangram::serve

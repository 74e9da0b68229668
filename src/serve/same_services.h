// Whether a reload has read the services that are served already.
#pragma once

#include "sched/roster.h"

namespace tangram::serve {

// The same services with the same contents, and the same ones removed.
bool same_services(const sched::Roster& a, const sched::Roster& b);

}  // namespace tangram::serve

// What tells one service from another, apart from its name.
#pragma once

#include <string>

#include "core/workload.h"

namespace tangram {

// Everything that decides how a service behaves, as text: all but its name and its tensors. Services with equal keys
// answer every question about speed alike. A trace stands there as its length and a digest of 64 bits, so the cost is
// one pass over the trace.
std::string content_key(const Service& service);

}  // namespace tangram

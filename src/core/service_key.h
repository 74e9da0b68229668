// A key for services that behave alike, whatever their names.
#pragma once

#include <string>

#include "core/workload.h"

namespace tangram {

// Everything that decides how a service behaves, as text: all fields but its name and its tensors. Services with equal
// keys have equal answers to every question about speed. A trace is represented by its length and a digest of 64 bits,
// so the cost is one pass over the trace.
std::string content_key(const Service& service);

}  // namespace tangram

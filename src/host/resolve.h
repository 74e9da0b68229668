// Names of machines to addresses.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tangram::host {

// The address in numbers of a machine that is named by a name or by numbers: the first that the system's resolver
// gives. May block for seconds, so it is called where a program starts or reads its files again, never on an event
// loop. Errors: the name is not known.
Result<std::string> resolve_host(const std::string& name);
// All of its addresses in the order of the resolver, which is that in which to try them; at least one. An IPv6 address
// may stand in brackets.
Result<std::vector<std::string>> addresses_of(const std::string& name);

}  // namespace tangram::host

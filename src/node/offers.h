// What a node has to offer: from the command line, from the devices that the process was given, or its cores.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "node/node_protocol.h"

namespace tangram::node {

// "2x1g.10gb,3g.40gb": slices without hardware, for rehearsals, of any device type; "MIG-UUID:1g.10gb": one that exists.
// Errors: anything else.
Result<OfferedBoard> parse_slices(std::string_view text);

// "a100-80gb" or "rack1-0=a100-80gb": a whole device without hardware, for rehearsals. Errors: anything else.
Result<OfferedBoard> parse_device(std::string_view text);

// The cores that this process may use, as one device.
OfferedBoard host_board();

// The MIG devices in a list as CUDA_VISIBLE_DEVICES has it, with their profiles as the driver says. Empty: it names
// none. Errors: the driver does not know one of them, or cannot be asked.
Result<std::vector<OfferedBoard>> mig_boards(std::string_view visible_devices);

}  // namespace tangram::node

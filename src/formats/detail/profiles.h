// Names of MigProfiles in files.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tangram::formats {

// The name that the tables have for what `name` means on a device type: 7g.79gb of an a100-80gb is 7g.80gb. On the host
// any number of quarter cores is a profile. An unknown device is not_found, an unknown profile invalid.
Result<std::string> profile_name(std::string_view device, std::string_view name);

}  // namespace tangram::formats

// Canonical names of MigProfiles: files may spell a profile differently, and tables compare names.

#include "formats/detail/profiles.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "core/geometry.h"
#include "formats/describe.h"

namespace tangram::formats {
namespace {

// A host's geometry depends on its cores, which a file of measurements does not give. So any number of quarter cores up
// to the limit is accepted, and "1.50c" becomes "1.5c", the name that a geometry would use.
Result<std::string> host_profile_name(std::string_view name) {
  const auto cores = name.ends_with('c') ? text::parse_number(name.substr(0, name.size() - 1)) : std::nullopt;
  const double quarters = cores.value_or(0) * 4;
  if (quarters >= 1 && quarters <= 4.0 * kCpuCoresMax && quarters == std::floor(quarters)) {
    return text::shortest(*cores) + "c";
  }
  return Error{
      ErrorCode::invalid,
      fmt::format("cpu has no profile {}; expected cores in quarters such as 0.25c, 1c, 1.5c", detail::excerpt(name))};
}

}  // namespace

Result<std::string> profile_name(std::string_view device, std::string_view name) {
  if (device == "cpu") return host_profile_name(name);
  const Geometry* geometry = find_geometry(device);
  if (geometry == nullptr) {
    return Error{ErrorCode::not_found, "device " + detail::unknown_word(device, device_type_names())};
  }
  TANGRAM_TRY(const auto profile, find_profile(*geometry, name));
  return geometry->profiles[profile].name;
}

}  // namespace tangram::formats

// The fleet file: which devices there are, in YAML.
#pragma once

#include <string>

#include "core/fleet.h"
#include "formats/source.h"

namespace tangram::formats {

// `host` is the machine of `type: cpu` entries: what such an entry leaves out (cores, memory, quota) is taken from it.
// All problems of the file are returned at once, one line each, in the order of their places.
Result<Fleet> parse_fleet(const Source& source, const CpuHost& host);

// YAML that parse_fleet reads back to the same fleet. A cpu group with a layout carries its host, as parse_fleet makes
// it.
std::string write_fleet(const Fleet& fleet);

// Everything that a device of the group can be cut into, whatever subset a plan may use of it. The indices in
// DeviceGroup::layout belong to this Geometry. `host` as above.
Geometry group_geometry(const DeviceGroup& group, const CpuHost& host);

}  // namespace tangram::formats

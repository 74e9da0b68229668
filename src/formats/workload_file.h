// The services file: what is to be served, in YAML.
#pragma once

#include <string>

#include "core/workload.h"
#include "formats/describe.h"
#include "formats/source.h"

namespace tangram::formats {

// `read_file` reads the traces, rate curves and histograms that the services name; a path is passed as written and is
// relative to the services file. Problems in those files are reported under their own names, together with all others.
Result<Workload> parse_workload(const Source& source, const ReadFile& read_file);

// The same for a list of services inside another document. Problems are added to `problems`.
Workload read_services(const Node& list, const ReadFile& read_file, Problems& problems);
// The description of such a list, for schemas.
Shape service_list_shape();

// YAML that parse_workload reads back to the same workload. Traces, curves and histograms stay in their files and
// are written as the path alone.
std::string write_workload(const Workload& workload);

}  // namespace tangram::formats

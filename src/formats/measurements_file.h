// Measurements: CSV with a header row, one timed run in each row.
#pragma once

#include <string>
#include <vector>

#include "core/measurement.h"
#include "formats/source.h"

namespace tangram::formats {

// Columns are found by name, in any order: device, mig_profile, model, batch and latency_ms must be there. A blank
// latency means that the run did not fit into memory. Names of profiles come back as the tables spell them. Refused are
// unknown devices and profiles, the same configuration twice, and a throughput that contradicts
// batch * processes / latency by more than kThroughputFactorMax, which is how a mix-up of units looks.
// `lines`, where given, receives the line of each measurement.
Result<Measurements> parse_measurements(const Source& source, std::vector<int>* lines = nullptr);
inline constexpr double kThroughputFactorMax = 2;

// All columns, in one fixed order; weights_mib and load_ms only if some row has them. parse_measurements reads back the same values.
std::string write_measurements(const Measurements& measurements);

}  // namespace tangram::formats

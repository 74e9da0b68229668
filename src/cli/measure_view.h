// What was measured, as people and as programs see it.
#pragma once

#include <string>

#include "cli/terminal.h"
#include "report/yaml.h"
#include "measure/session.h"

namespace tangram::cli {

// Points with their intervals, what was skipped and why, and why it ended.
std::string measure_table(const measure::Report& report, double precision, const Terminal& terminal);
report::Json measure_json(const measure::Report& report);

}  // namespace tangram::cli

// A day that was planned anew, as people and as programs see it.
#pragma once

#include <string>

#include "cli/session.h"
#include "lab/replan.h"

namespace tangram::cli {

// One row for each way of planning, with the share of the static plan's GPU-hours that it saves.
std::string replan_table(const lab::Scenario& scenario, const lab::ReplanComparison& comparison,
                         const Terminal& terminal);
report::Json replan_json(const lab::Scenario& scenario, const lab::ReplanComparison& comparison);

}  // namespace tangram::cli

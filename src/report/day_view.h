// A simulated day in a terminal: the load, the share in time, and how busy each slice was.
#pragma once

#include <span>
#include <string>

#include "report/run_view.h"
#include "report/style.h"

namespace tangram::report {

// One letter for each value between 0 and 1, from ▁ to █; a blank for what is not a number.
std::string sparkline(std::span<const double> values);

// Two lines for each service: requests a second, and the share in time. The run has a time line.
std::string draw_day(const RunView& view, const lab::Run& run, const Terminal& terminal, int indent);

// A row for each device with its slices, what they serve and how much of the time they were busy.
std::string draw_utilisation(const lab::Scenario& scenario, const RunView& view, const Terminal& terminal, int indent);

}  // namespace tangram::report

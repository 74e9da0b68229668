// The results of re-planning a day, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "lab/replan_comparison.h"
#include "report/run_view.h"
#include "report/style.h"
#include "report/yaml.h"

namespace tangram::report {

// The types of GPUs that the runs used.
std::vector<std::string> gpu_types(const lab::ReplanComparison& comparison);
std::string gpu_hours_text(const lab::ReplanRun& run, const std::string& type);
// True if every service of the run kept its promise.
bool keeps_all(const lab::Scenario& scenario, const lab::ReplanRun& run);
// One row for each way of planning, with the share of the static plan's GPU-hours that it saves, unless a promise was
// broken in either. GPUs of several types have a column each, and only a price makes a saving of them.
std::string replan_table(const lab::Scenario& scenario, const lab::ReplanComparison& comparison,
                         const Terminal& terminal);
Json replan_json(const lab::Scenario& scenario, const lab::ReplanComparison& comparison);

// One page that needs nothing but itself: GPUs in use, rates and attainment over time, and every change of plan.
std::string replan_html(const ReportHead& head, const lab::Scenario& scenario, const lab::ReplanComparison& comparison);

}  // namespace tangram::report

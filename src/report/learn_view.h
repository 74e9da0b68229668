// What fitted models are worth, for people and for programs. The page is learn_html() in learn_report.h.
#pragma once

#include <string>
#include <vector>

#include "report/learn_report.h"
#include "report/style.h"
#include "report/yaml.h"

namespace tangram::report {

// One row for each model: its errors on runs that it had not seen, and what it would measure next.
std::string learn_overview(const std::vector<LearnReport>& reports, const Terminal& terminal);
// Errors of one model by slice, batch, size and processes; empty where no group has a second member.
std::string learn_details(const LearnReport& report, const Terminal& terminal);
Json learn_json(const std::vector<LearnReport>& reports);

}  // namespace tangram::report

// Runs of a scenario, on all cores and with a progress bar.
#pragma once

#include <string>
#include <vector>

#include "cli/session.h"
#include "lab/run_scenario.h"
#include "report/run_view.h"

namespace tangram::cli {

// An error unless every name is that of a policy and is given once.
Result<Nothing> check_policies(const std::vector<std::string>& policies);

// The head of every result file: this program, its commit, and the scenario's configuration and seed.
report::ReportHead report_head(const lab::Scenario& scenario);

// Writes the scenario's warnings to standard error, even when quiet.
void warn(Session& session, const lab::Scenario& scenario);

// The scenario under each policy, on the same random numbers, on all cores; in the order of `policies`.
std::vector<lab::Run> run_policies(Session& session, const lab::Scenario& scenario,
                                   const std::vector<std::string>& policies, const lab::RunDetail& detail);

}  // namespace tangram::cli

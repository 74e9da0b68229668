// Runs of a scenario as people and as programs see them.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "cli/session.h"
#include "lab/report.h"
#include "lab/scenario.h"

namespace tangram::cli {

// Every name is that of a policy, and stands once.
Result<Nothing> check_policies(const std::vector<std::string>& policies);

// What heads every result file.
lab::ReportHead report_head(const lab::Scenario& scenario);

// Says on standard error, even when quiet, what is odd about the scenario.
void warn(Session& session, const lab::Scenario& scenario);

// How much of the run pictures and files need beyond its numbers.
struct RunDetail {
  std::size_t timeline_steps = 0;
  std::size_t batches_max = 0;
  bool decisions = false;
};

// The scenario under each policy, on the same random numbers, on all cores; in the order of `policies`. A scenario that
// ends by number and not by time runs twice where a time line is asked for: once to learn how long it takes.
std::vector<lab::Run> run_policies(Session& session, const lab::Scenario& scenario,
                                   const std::vector<std::string>& policies, const RunDetail& detail);

// Totals, services, and where `whole` buckets, slices and tenants. `indent` in spaces.
std::string run_tables(const lab::RunView& run, const Terminal& terminal, bool whole, int indent = 0);
// How the jobs of a scenario with training fared, and who had the GPUs.
std::string training_tables(const lab::TrainingResult& training, const Terminal& terminal);
// The policies of several runs, one row for each service and policy.
std::string comparison_table(std::span<const lab::RunView> runs, const Terminal& terminal, int indent = 0);

report::Json head_json(const lab::ReportHead& head);
report::Json run_json(const lab::RunView& run, const lab::Run& source);

// "99.53 %", with more digits near the whole.
std::string share_text(double share);

}  // namespace tangram::cli

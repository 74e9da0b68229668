// Runs of a scenario as people and as programs see them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lab/scenario.h"
#include "report/run_view.h"
#include "report/style.h"
#include "report/yaml.h"

namespace tangram::report {

// Totals, services, and where `whole` buckets, slices and tenants. `indent` in spaces.
std::string run_tables(const RunView& run, const Terminal& terminal, bool whole, int indent = 0);
// How the jobs of a scenario with training fared, and who had the GPUs.
std::string training_tables(const lab::TrainingResult& training, const Terminal& terminal);
// The policies of several runs, one row for each service and policy.
std::string comparison_table(std::span<const RunView> runs, const Terminal& terminal, int indent = 0);

Json head_json(const ReportHead& head);
Json run_json(const RunView& run, const lab::Run& source);

// "99.53 %", with more digits near the whole.
std::string share_text(double share);

}  // namespace tangram::report

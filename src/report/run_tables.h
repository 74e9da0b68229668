// Runs of a scenario, for people and for programs.
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
// The completion times of the jobs of a scenario with training, and the owners of the GPUs.
std::string training_tables(const lab::TrainingResult& training, const Terminal& terminal);
// The policies of several runs, one row for each service and policy.
std::string comparison_table(std::span<const RunView> runs, const Terminal& terminal, int indent = 0);

// Everything `tangram simulate` prints: the tables of one run or the comparison of several, then offline jobs and
// training. `views` are those of `runs`, in their order.
std::string runs_text(const lab::Scenario& scenario, std::span<const lab::Run> runs, std::span<const RunView> views,
                      const Terminal& terminal);
// The same for programs, under the head.
Json runs_json(const ReportHead& head, const lab::Scenario& scenario, std::span<const lab::Run> runs,
               std::span<const RunView> views);

Json head_json(const ReportHead& head);
Json run_json(const RunView& run, const lab::Run& source);

}  // namespace tangram::report

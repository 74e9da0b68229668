// The files that users name, read and understood.
#pragma once

#include <string>
#include <vector>

#include "core/fleet.h"
#include "core/workload.h"
#include "formats/source.h"
#include "lab/scenario.h"

namespace tangram::cli {

// This machine, as `type: cpu` entries of a fleet mean it.
CpuHost this_host();

Result<formats::Source> read_source(const std::string& path);

// Reads files that are named inside `path`, relative to its folder.
formats::ReadFile reader_beside(const std::string& path);

Result<Fleet> load_fleet(const std::string& path);
Result<Workload> load_workload(const std::string& path);
// It may have a fleet and no plan: see needs_plan.
Result<lab::Scenario> load_scenario(const std::string& path);
// An error where the scenario of the file `path` has no plan to run.
Result<Nothing> needs_plan(const lab::Scenario& scenario, const std::string& path);

// The folder with the shipped examples: below $TANGRAM_SHARE, beside the installed program, in the source that the
// program was built in, or below the current folder.
Result<std::string> examples_directory();

}  // namespace tangram::cli

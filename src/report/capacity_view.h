// The highest load that a scenario carries, for people and for programs.
#pragma once

#include <span>
#include <string>

#include "lab/capacity.h"
#include "report/run_view.h"
#include "report/style.h"
#include "report/yaml.h"

namespace tangram::report {

// What a search for capacity was asked and what it found, one result for each policy.
struct CapacityView {
  std::string scenario;
  double tolerance = 0;
  std::span<const lab::CapacityResult> results;
};

// One row for each policy and service; the policy is named in its first row only.
std::string capacity_table(std::span<const lab::CapacityResult> results, const Terminal& terminal);
Json capacity_json(const ReportHead& head, const CapacityView& view);

}  // namespace tangram::report

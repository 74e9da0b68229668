// Plans, and what is needed to judge them, read from the files that users name.
#pragma once

#include <memory>
#include <string>

#include "core/latency_model.h"
#include "core/plan.h"
#include "plan/transition.h"

namespace tangram::cli {

Result<Plan> load_plan(const std::string& path);

// Where run times come from. At most one of the two is given.
struct LatencySource {
  std::string measurements;  // CSV; between its points run times are linear.
  std::string model;         // What `tangram learn` wrote.

  bool given() const { return !measurements.empty() || !model.empty(); }
};

// Errors: neither is given, or the file is wrong.
Result<std::shared_ptr<const LatencyModel>> load_latency(const LatencySource& source);

// From a file of re-cuts, or from the published timings that `tangram import mig-reconfig` makes one of: the median for
// each number of slices.
Result<plan::RecutTimes> load_recut_times(const std::string& path);

}  // namespace tangram::cli

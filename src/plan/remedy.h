// What would help where no plan was found.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "plan/problem.h"

namespace tangram::plan {

// Everything here was found as a plan under the rule of the problem; nothing is a guess. A field without a value says
// that no such plan was found within the limits, and not that there is none.
struct Remedy {
  std::optional<int> devices;              // A plan on so many devices of the fleet's types, without its limits, ...
  std::string of = {};                     // ... "4 x a100-80gb + 1 x a30".
  std::string service = {};                // The service that takes most of those devices, ...
  double service_devices = 0;              // ... so much of the price of that plan.
  std::optional<double> rate_factor = {};  // A plan on the fleet as it is for so many times all rates.

  bool empty() const { return !devices && !rate_factor; }
};

struct RemedyOptions {
  int probes_max = 8;                // Plans that are tried for the factor of rates.
  std::int64_t questions_max = 300;  // To the certifier, for everything together; then its answer is no.
  std::function<void(const std::string&)> progress = {};  // Told what is tried, for progress bars.
};

// Plans on a fleet without limits, and then for lower rates on the fleet as it is, until the factor is known within
// 5 %. Each service gets slices of its own, which is quicker to plan; sharing may need less. For a problem that
// `planner` has found no plan for.
Remedy find_remedy(const Problem& problem, const Planner& planner, const RemedyOptions& options = {});

// In sentences, one a line; empty if nothing was found.
std::string to_text(const Remedy& remedy);

}  // namespace tangram::plan

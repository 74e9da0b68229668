// The results `parvagpu` and `elastic-batch` of `tangram reproduce`.
#pragma once

#include <string>

#include "cli/session.h"

namespace tangram::cli {

struct PlannerResultOptions {
  std::string data;
  bool full = false;
  bool quick = false;  // elastic-batch: only one rate.
};

ExitCode reproduce_parvagpu(Session& session, const PlannerResultOptions& options);
ExitCode reproduce_elastic_batch(Session& session, const PlannerResultOptions& options);

}  // namespace tangram::cli

// The result `few-shot` of `tangram reproduce`.
#pragma once

#include <string>

#include "cli/session.h"

namespace tangram::cli {

struct FewShotOptions {
  std::string data;   // The folder with parvagpu/profiles.csv and migprofiler/profiles.csv; one of them is enough.
  bool full = false;  // Twenty seeds instead of a few.
  int seeds = 0;      // 0: the usual number.
};

ExitCode reproduce_few_shot(Session& session, const FewShotOptions& options);

}  // namespace tangram::cli

// `tangram doctor --self-test`: everything that Tangram does with a GPU, once, on one that is idle.
#pragma once

#include <string>

#include "adapters/nvml/nvml.h"
#include "cli/session.h"
#include "report/yaml.h"

namespace tangram::cli {

struct SelfTestOptions {
  std::string gpu;              // UUID or index.
  std::string engine = "onnx";  // Or torch.
  std::string models;    // A folder with a model of the user's; empty: an example is made.
  std::string model;     // Its name, ...
  std::string services;  // ... and the file that declares its inputs.
  std::string report = "tangram-self-test.json";
};

// Measures on slices that are cut for it, cuts the GPU for a plan, compares, serves under load, and undoes it all, with
// the verbs that a user would call. Prints each step and writes a report with what each has said. `findings`: those of
// doctor, for the report. Answers no if a step failed or the GPU is not as it was.
Result<ExitCode> run_self_test(Session& session, const SelfTestOptions& options, const adapters::DriverReport& driver,
                               const report::Json& findings);

}  // namespace tangram::cli

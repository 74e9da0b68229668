// Which engines can run here, by trying them.
#pragma once

#include <string>
#include <vector>

#include "adapters/nvml/nvml.h"

namespace tangram::cli {

struct EngineFinding {
  std::string engine;
  std::string device;    // "cpu" or "gpu".
  std::string provider;  // Of the engine onnx; empty elsewhere.
  std::string missing;   // What it lacks; empty: it is usable.
};

// Loads the libraries of the engines, and asks them for a GPU where the driver has one.
std::vector<EngineFinding> find_engines(const adapters::DriverReport& driver);

}  // namespace tangram::cli

// An engine for measuring: the same worker processes that serve, driven one batch at a time.
//
// The time of a run is what the gateway would wait for: the message to the worker, the run, and the message back. A
// replica is pinned to the cores of its slice, limited to their processor time where the host supports it, and limited
// to the slice's memory; a run that needs more is out of memory.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/geometry.h"
#include "engines/batch_engine.h"
#include "engines/engine.h"

namespace tangram::worker {

struct WorkerEngineConfig {
  std::string program;                          // As find_worker_program() says.
  std::string engine = "emulated";              // Which the workers host.
  Geometry geometry = {};                       // Of the device; slices of the host's cores are made by pinning.
  engines::ModelSpec model = {};                // The only one; placements name its network.
  std::optional<double> memory_limit_mib = {};  // Of every slice, instead of what the geometry says.
  std::string provider = {};                    // As in BatchEngineConfig.
  // What the environment of a worker on a slice of this MigProfile has in addition to ours: its MIG device. Empty: of
  // the host's cores.
  std::function<Result<std::vector<std::string>>(const std::string& mig_profile)> environment = {};
};

std::unique_ptr<engines::Engine> make_worker_engine(WorkerEngineConfig config);

}  // namespace tangram::worker

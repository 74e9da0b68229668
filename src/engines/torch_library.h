// libtorch, loaded on demand.
//
// libtorch and what it needs are some 280 shared libraries that take half a second to load, so nothing links it: one
// shared object of ours does (src/engines/torch), and it is loaded when an engine of that name is asked for. Programs
// work without it, and say so when it is wanted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "engines/batch_engine.h"
#include "engines/example_models.h"

namespace tangram::engines {

// What the shared object offers.
class TorchLibrary {
 public:
  virtual ~TorchLibrary() = default;
  // "libtorch 1.13.1"
  virtual std::string version() const = 0;
  // Why it cannot compute on a GPU of this machine; empty: it can.
  virtual std::string why_no_gpu() const = 0;
  // Writes the model as TorchScript. The same seed gives the same bytes.
  virtual Result<Nothing> write_model(const ExampleModel& model, std::uint64_t seed, const std::string& path) const = 0;
  virtual std::unique_ptr<BatchEngine> make_engine(const BatchEngineConfig& config) const = 0;
};

// Loads it, once in a process. It is looked for beside the running program, and in ../lib/tangram from there.
// Errors: it is not there, or does not load.
Result<const TorchLibrary*> load_torch_library();
// True if the shared object is there, without loading it.
bool has_torch_library();

// The function by which the shared object hands it out. The number changes with this file.
inline constexpr const char* kTorchLibrarySymbol = "tangram_torch_library_3";

}  // namespace tangram::engines

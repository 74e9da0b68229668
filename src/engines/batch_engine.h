// Models that are loaded in this process and run batches of real tensors, one at a time.
//
// A worker process hosts one of these for its slice: it loads, warms up, says that it is ready, and then runs one batch
// after the other until it is told to end. Every call blocks. Nothing here knows how tensors came or where answers go.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/ids.h"
#include "core/tensor.h"
#include "engines/engine.h"
#include "engines/executor.h"

namespace tangram::engines {

// One service of a slice: a network, its weights, what it takes, and the batches that it will be asked for.
struct ModelSpec {
  ServiceId service = {};               // How jobs name it.
  std::string name = {};                // Of the service.
  std::string network = {};             // What the measurements call the model.
  std::string path = {};                // Its weights, without the ending that the engine adds; empty: none were given.
  ServiceId copy = {};                  // Models with the same network and weights have the same here, and share them.
  bool on_demand = false;               // Loaded by the first batch that needs it.
  Duration load_time{};                 // As measured; zero: not known. `emulated` takes it.
  Signature signature = {};             // Inputs and outputs in the order of BatchMemory.
  std::vector<BatchShape> shapes = {};  // For each bucket its padded size and the largest batch: what to warm up.

  bool operator==(const ModelSpec&) const = default;
};

// The slice as the engine sees it. Cores, quotas and CUDA_VISIBLE_DEVICES are already in force.
struct BatchEngineConfig {
  std::string device = "cpu";    // Device type: "cpu", "a100-80gb".
  int threads = 1;               // That may compute at the same time.
  double time_scale = 1;         // `emulated`: of the expected times. 0 answers at once.
  std::string mig_profile = {};  // Of the slice, "3g.40gb"; empty: not known.
  double memory_mib = 0;         // That the slice has; 0: no limit is known. `onnx` limits its arena to it.
  std::string provider = {};     // `onnx`: cpu, cuda or tensorrt. Empty: cpu on the host's cores, cuda on a GPU.
};

class BatchEngine {
 public:
  virtual ~BatchEngine() = default;
  // Loads every model; models with the same weights share one copy. Called once, before anything else. Errors name the
  // model and what is wrong with it.
  virtual Result<Nothing> load(std::span<const ModelSpec> models) = 0;
  // Runs what must have run before times mean anything: each shape often enough that the next run is like the ones
  // after it. Called once, after load.
  virtual Result<Nothing> warm_up() = 0;
  // Loads one more model while the others stay, and returns the bytes of its weights; 0 where the engine does not know
  // them. One with the same service takes the place of the old one.
  virtual Result<std::uint64_t> load_one(const ModelSpec& model) = 0;
  // As warm_up, for one model that is loaded.
  virtual Result<Nothing> warm_up(ServiceId service) = 0;
  // Forgets a model. Its weights are freed with the last model that shares them. Nothing happens if it is not there.
  virtual void unload(ServiceId service) = 0;
  // Reads memory.inputs and fills memory.outputs, which have the sizes that the signature and the job say. Errors fail
  // the batch; the engine can be asked again. Third-party exceptions end here.
  virtual Result<Nothing> run(const BatchJob& job, const BatchMemory& memory) = 0;
  // True if stop() ends a batch early.
  virtual bool can_stop() const { return false; }
  // Ends the run of this batch as soon as the engine can: run() returns an error then, or has already returned, or will
  // at once when it is called. The only function that another thread may call.
  virtual void stop(BatchId /*batch*/) {}
};

struct BatchEngineInfo {
  std::string_view name;
  std::string_view summary;
};

// In the order of batch_engines.def. Naming an engine links none of them: only make_batch_engine does.
std::span<const BatchEngineInfo> batch_engines();
// The engine with this name. Errors: there is none.
Result<std::unique_ptr<BatchEngine>> make_batch_engine(std::string_view name, const BatchEngineConfig& config);

}  // namespace tangram::engines

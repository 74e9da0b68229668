// How a batch runs on a slice.
//
// An engine loads a model on a slice and runs batches there, one at a time. Some really run, some only say how long it
// would have taken; the code that measures or serves does not depend on which. Out of memory is an answer, and
// so is a point that an engine cannot run; errors are for what is broken.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "base/time.h"
#include "core/latency_model.h"
#include "core/measurement.h"

namespace tangram::engines {

// One model on one slice. Several processes load it several times, and run at the same time.
struct Placement {
  std::string device;  // Device type.
  std::string mig_profile;
  std::string model;
  std::int64_t processes = 1;

  bool operator==(const Placement&) const = default;
};

// One batch of each process.
struct BatchShape {
  std::int64_t batch = 1;
  std::int64_t size = 1;

  bool operator==(const BatchShape&) const = default;
};

// The slice's memory did not suffice.
struct OutOfMemory {
  bool operator==(const OutOfMemory&) const = default;
};

// The engine cannot run the point, and says why: "not measured there". Trying again changes nothing.
struct NotThere {
  std::string reason;

  bool operator==(const NotThere&) const = default;
};

// A batch that ran.
struct Completed {
  std::optional<Duration> duration;  // Of one batch, mean of the processes. Nothing: whoever called holds the watch.
  std::optional<Duration> spread;    // Standard deviation, where the engine knows more of it than repeated runs show.
  std::optional<double> memory_mib;  // Peak of all processes together.

  bool operator==(const Completed&) const = default;
};

using RunOutcome = std::variant<Completed, OutOfMemory, NotThere>;

// What loading a replica showed, where the engine knows.
struct LoadFacts {
  std::optional<Duration> duration;   // From the request to load the model until it can run, in a process that runs.
  std::optional<double> weights_mib;  // Of one process, whether it runs or not.
};

// A replica that is loaded and can run. Destroying it frees the slice; its engine outlives it.
class LoadedReplica {
 public:
  virtual ~LoadedReplica() = default;
  // Runs one batch in each process at the same time and returns when all have ended. A replica that ran out of memory
  // may be asked again for a smaller batch.
  virtual Result<RunOutcome> run(const BatchShape& shape) = 0;
  virtual LoadFacts load_facts() const { return {}; }
};

using LoadOutcome = std::variant<std::unique_ptr<LoadedReplica>, OutOfMemory, NotThere>;

// What an engine can do.
struct Capabilities {
  bool times_itself = false;    // Completed runs have a duration.
  bool reports_memory = false;  // Completed runs may have their memory.
  bool varies = true;           // Runs of one point differ; otherwise one of them says all.
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual Capabilities capabilities() const = 0;
  // Why the point cannot be run, as far as that is known without trying; nothing where it may be tried.
  virtual std::optional<std::string> why_not(const RunPoint& point) const = 0;
  // At most one replica of an engine is loaded at a time.
  virtual Result<LoadOutcome> load(const Placement& placement) = 0;
};

// What engines may be told by a user. Each reads the fields that are named for it.
struct EngineConfig {
  Measurements measurements;                    // `replay`: what it answers from.
  std::shared_ptr<const LatencyModel> latency;  // `emulated`: how long runs take. Not null there.
  // `emulated`: peak memory of all processes in MiB, infinite where a run is known not to fit. Nothing: unknown, and
  // taken to fit.
  std::function<std::optional<double>(const RunPoint&)> memory_mib;
  std::optional<double> memory_limit_mib;  // `emulated`: instead of what the tables say of the slice.
  bool noise = false;                      // Runs vary as the recorded or predicted spread says.
  std::uint64_t seed = 1;                  // Of the noise.
  std::function<void(Duration)> sleep;     // Keeps the time of each run for real; empty: runs end at once.
};

struct EngineInfo {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Engine> (*make)(const EngineConfig&);
};

// In the order of engines.def.
std::span<const EngineInfo> engines();
// The engine with this name, or null.
const EngineInfo* find_engine(std::string_view name);

}  // namespace tangram::engines

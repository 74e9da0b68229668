// A timed run of a model on a slice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tangram {

// One configuration and what was seen. A run that did not fit into memory has no latency.
struct Measurement {
  std::string device;       // Device type: "a100-80gb".
  std::string mig_profile;  // "3g.40gb"
  std::string model;
  std::int64_t batch = 1;
  std::int64_t size = 1;       // Input size of each sample; 1 where the model has only one.
  std::int64_t processes = 1;  // Processes that share the slice, each running batches of its own.

  std::optional<double> latency_ms;         // Of one batch, mean. Nothing: out of memory.
  std::optional<double> latency_spread_ms;  // Standard deviation.
  std::optional<double> memory_mib;         // Peak, of all processes together.
  std::optional<double> throughput_per_s;   // Samples a second, of all processes together.
  // Of that memory, what the weights of one process take, whether it runs or not.
  std::optional<double> weights_mib = std::nullopt;
  std::optional<double> load_ms = std::nullopt;  // From the request to load the model until it can run.

  bool out_of_memory() const { return !latency_ms.has_value(); }
  bool operator==(const Measurement&) const = default;
};

using Measurements = std::vector<Measurement>;

}  // namespace tangram

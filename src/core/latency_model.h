// What a run on a slice will take.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/time.h"

namespace tangram {

// One configuration to be predicted.
struct RunPoint {
  std::string_view device;       // Device type.
  std::string_view mig_profile;  // Name of the profile.
  std::string_view model;
  std::int64_t batch = 1;      // Samples that run together.
  std::int64_t size = 1;       // Padded input size of each.
  std::int64_t processes = 1;  // Processes that share the slice, this one included.
};

struct Prediction {
  Duration mean{};
  Duration p99{};
  std::optional<double> memory_mib = std::nullopt;  // Peak of all processes on the slice, where it is known.
};

// The fitted predictor. Implementations are values once built: predicting changes nothing.
class LatencyModel {
 public:
  virtual ~LatencyModel() = default;
  // Nothing if the run does not fit into the slice's memory, or the model knows nothing about it.
  virtual std::optional<Prediction> predict(const RunPoint& point) const = 0;
  // The memory that the weights of a model take on a slice, whether it runs or not. Never zero; nothing if no
  // measurement says anything about its memory.
  virtual std::optional<double> weights_mib(std::string_view /*device*/, std::string_view /*mig_profile*/,
                                            std::string_view /*model*/) const {
    return std::nullopt;
  }
  // How long it takes to load a model onto a slice; nothing if it was not measured.
  virtual std::optional<Duration> load_time(std::string_view /*device*/, std::string_view /*mig_profile*/,
                                            std::string_view /*model*/) const {
    return std::nullopt;
  }
};

}  // namespace tangram

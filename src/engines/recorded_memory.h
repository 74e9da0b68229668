// How much memory runs need, from measurements.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/latency_model.h"
#include "core/measurement.h"

namespace tangram::engines {

// Exact where a point was measured, linear in the batch between and beyond two that were. A run that is at least as
// large in batch, size and processes as one that was out of memory on the same profile needs an infinite amount.
// Nothing where neither says anything.
class RecordedMemory {
 public:
  explicit RecordedMemory(const Measurements& measurements);
  std::optional<double> mib(const RunPoint& point) const;

 private:
  struct Failed {
    std::int64_t batch;
    std::int64_t size;
    std::int64_t processes;
  };
  using Where = std::tuple<std::string, std::string, std::string>;  // Device, profile, model.
  using Series = std::tuple<Where, std::int64_t, std::int64_t>;     // ... and size and processes.
  std::map<Where, std::vector<Failed>> failed_;
  std::map<Series, std::map<std::int64_t, double>> measured_;  // MiB by batch.
};

}  // namespace tangram::engines

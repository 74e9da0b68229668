// Predictions from a formula, for models that have not been measured yet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/latency_model.h"

namespace tangram::learn {

// One model. A batch takes as long as its work, but never less than the launch of a run:
//   max(launch_ms, sample_ms * batch * (size / size_reference)^size_exponent * processes / slices^slice_exponent)
// The slices are compute slices of the device; on the host, cores.
struct AnalyticRun {
  std::string model;
  std::optional<std::string> device;  // Only on this type; nothing: on all that have no entry of their own.
  double launch_ms = 1;
  double sample_ms = 1;  // One sample of the reference size on one compute slice.
  double size_reference = 1;
  double size_exponent = 1;
  double slice_exponent = 1;
  double p99_factor = 1.1;       // p99 over mean.
  double memory_gib = 0;         // Of the loaded model; each further process loads its own.
  double memory_sample_gib = 0;  // Of each sample of the reference size in the batch.
};

// Memory is that of the device type's tables; a host has no limit here.
class AnalyticModel final : public LatencyModel {
 public:
  explicit AnalyticModel(std::vector<AnalyticRun> runs) : runs_(std::move(runs)) {}
  std::optional<Prediction> predict(const RunPoint& point) const override;
  std::optional<double> weights_mib(std::string_view device, std::string_view mig_profile,
                                    std::string_view model) const override;

 private:
  // The entry of this device, else the general one of the model, else null.
  const AnalyticRun* find(std::string_view model, std::string_view device) const;

  std::vector<AnalyticRun> runs_;
};

}  // namespace tangram::learn

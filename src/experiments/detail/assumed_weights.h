// A latency model whose data say nothing of memory, with an assumption in its place.
#pragma once

#include <optional>
#include <string_view>

#include "core/latency_model.h"

namespace tangram::experiments::detail {

// Answers as `model` does, which outlives it; every network takes `weights_mib` when it is loaded.
class AssumedWeights final : public LatencyModel {
 public:
  AssumedWeights(const LatencyModel& model, double weights_mib) : model_(model), weights_mib_(weights_mib) {}

  std::optional<Prediction> predict(const RunPoint& point) const override { return model_.predict(point); }
  std::optional<double> weights_mib(std::string_view, std::string_view, std::string_view) const override {
    return weights_mib_;
  }

 private:
  const LatencyModel& model_;
  double weights_mib_;
};

}  // namespace tangram::experiments::detail

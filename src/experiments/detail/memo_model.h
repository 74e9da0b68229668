// Predictions that are asked for again and again, remembered.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/latency_model.h"

namespace tangram::experiments::detail {

// Answers as `model` does. Not for several threads at once.
class MemoModel final : public LatencyModel {
 public:
  explicit MemoModel(const LatencyModel& model) : model_(model) {}

  std::optional<Prediction> predict(const RunPoint& point) const override {
    auto& known = of(point);
    const auto key = static_cast<std::uint64_t>(point.size) << 32 | static_cast<std::uint64_t>(point.batch) << 8 |
                     static_cast<std::uint64_t>(point.processes);
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
    return known.emplace(key, model_.predict(point)).first->second;
  }
  std::optional<double> weights_mib(std::string_view device, std::string_view mig_profile,
                                    std::string_view model) const override {
    return model_.weights_mib(device, mig_profile, model);
  }
  std::optional<Duration> load_time(std::string_view device, std::string_view mig_profile,
                                    std::string_view model) const override {
    return model_.load_time(device, mig_profile, model);
  }

 private:
  using Known = std::unordered_map<std::uint64_t, std::optional<Prediction>>;
  struct Run {
    std::string device;
    std::string mig_profile;
    std::string model;
    Known known;
  };

  // There are few of them, and the last one is usually meant again.
  Known& of(const RunPoint& point) const {
    const auto same = [&](const Run& run) {
      return run.mig_profile == point.mig_profile && run.model == point.model && run.device == point.device;
    };
    if (last_ < runs_.size() && same(runs_[last_])) return runs_[last_].known;
    for (last_ = 0; last_ < runs_.size(); ++last_) {
      if (same(runs_[last_])) return runs_[last_].known;
    }
    runs_.push_back({std::string(point.device), std::string(point.mig_profile), std::string(point.model), {}});
    return runs_.back().known;
  }

  const LatencyModel& model_;
  mutable std::vector<Run> runs_;
  mutable std::size_t last_ = 0;
};

}  // namespace tangram::experiments::detail

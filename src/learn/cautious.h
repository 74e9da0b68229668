// Run times that are rather too long than too short, for planning on what was never measured.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "learn/fitted_model.h"

namespace tangram::learn {

// The share of guessed run times that turn out no longer than planned, unless another is asked for.
inline constexpr double kGuessConfidence = 0.9;

class CautiousModel final : public LatencyModel {
 public:
  // Answers the time that a run keeps with probability `confidence`, 0.5 (the mean) to 0.999. Without: the mean for
  // slices that were measured, and with kGuessConfidence where Estimate::guessed says that none was.
  CautiousModel(std::shared_ptr<const FittedModel> model, std::optional<double> confidence)
      : model_(std::move(model)), confidence_(confidence) {}

  std::optional<Prediction> predict(const RunPoint& point) const override;
  std::optional<double> weights_mib(std::string_view device, std::string_view mig_profile,
                                    std::string_view model) const override {
    return model_->weights_mib(device, mig_profile, model);
  }
  std::optional<Duration> load_time(std::string_view device, std::string_view mig_profile,
                                    std::string_view model) const override {
    return model_->load_time(device, mig_profile, model);
  }

 private:
  std::shared_ptr<const FittedModel> model_;
  std::optional<double> confidence_;
};

}  // namespace tangram::learn

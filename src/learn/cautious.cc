#include "learn/cautious.h"

#include "base/math.h"

namespace tangram::learn {

// An interval is symmetric on the logarithm, so the upper quantile at another share is a part or a multiple of its
// width, as of a normal distribution.
std::optional<Prediction> CautiousModel::predict(const RunPoint& point) const {
  auto prediction = model_->predict(point);
  if (!prediction) return std::nullopt;
  const FittedRun* run = model_->find(point.device, point.model);
  const auto estimate = model_->estimate(point);
  if (run == nullptr || !estimate) return prediction;
  const double confidence = confidence_.value_or(estimate->guessed ? kGuessConfidence : 0.5);
  if (confidence <= 0.5) return prediction;
  const double width = math::log(estimate->high_ms / estimate->mean_ms);
  const double factor =
      math::exp(width * math::normal_quantile(confidence) / math::normal_quantile((1 + run->coverage) / 2));
  prediction->mean = from_milliseconds(to_milliseconds(prediction->mean) * factor);
  prediction->p99 = from_milliseconds(to_milliseconds(prediction->p99) * factor);
  return prediction;
}

}  // namespace tangram::learn

// The services of the ElasticBatch experiment, as planners and simulations take them.
#pragma once

#include <algorithm>
#include <optional>

#include "core/latency_model.h"
#include "experiments/detail/memo_model.h"
#include "experiments/elastic_batch.h"
#include "plan/problem.h"

namespace tangram::experiments::detail {

// The reference's five buckets.
inline constexpr std::int64_t kFixedEdges[] = {32, 64, 128, 256, 512};

// Simulations that look for an answer and those that judge it draw other random numbers, so that no answer is chosen
// for its luck.
inline constexpr std::uint64_t kSeedSearch = 1000;
inline constexpr std::uint64_t kSeedJudged = 77;

// Answers only for slices that were measured: nothing is planned on a guess between them.
class MeasuredSlices final : public LatencyModel {
 public:
  explicit MeasuredSlices(const ElasticBatchInput& input) : input_(input), memo_(*input.latency) {}
  std::optional<Prediction> predict(const RunPoint& point) const override {
    if (std::ranges::find(input_.mig_profiles, point.mig_profile) == input_.mig_profiles.end()) return std::nullopt;
    return memo_.predict(point);
  }
  std::optional<double> weights_mib(std::string_view device, std::string_view mig_profile,
                                    std::string_view model) const override {
    return memo_.weights_mib(device, mig_profile, model);
  }

 private:
  const ElasticBatchInput& input_;
  detail::MemoModel memo_;
};

// One service for each model, all at the same rate, under the same Slo and with the same lengths.
Workload make_workload(const ElasticBatchInput& input, const ElasticBatchSetting& setting);

// As many devices of the input's type as it takes.
plan::Problem make_problem(const ElasticBatchInput& input, const LatencyModel& latency, Workload workload,
                           plan::Bucketing bucketing, plan::Certifier* certifier);

}  // namespace tangram::experiments::detail

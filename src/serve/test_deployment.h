// A small plan for tests: two slices of one A100 serve one service with buckets up to 32 and 128.
#pragma once

#include <gtest/gtest.h>

#include "core/geometry.h"
#include "sched/deployment.h"

namespace tangram::serve::test {

// A batch of n samples takes 1 + n units in the small bucket and twice that in the large one.
class LinearModel final : public LatencyModel {
 public:
  explicit LinearModel(Duration unit) : unit_(unit) {}
  std::optional<Prediction> predict(const RunPoint& point) const override {
    const Duration mean = unit_ * ((1 + point.batch) * (point.size > 32 ? 2 : 1));
    return Prediction{mean, mean};
  }

 private:
  Duration unit_;
};

inline Workload workload(Padding padding = Padding::bucket) {
  Service service;
  service.name = "rank";
  service.model = "encoder";
  service.slo.latency = std::chrono::milliseconds(50);
  service.padding = padding;
  service.tensors = Signature{
      {{"ids", Datatype::int64, {kVariableAxis}, 0, false}, {"mask", Datatype::int64, {kVariableAxis}, 0, true}},
      {{"pooled", Datatype::fp32, {3}, 0, false}, {"tokens", Datatype::uint64, {2, kVariableAxis}, 0, false}}};
  return Workload{{service}};
}

inline sched::Deployment deployment(std::int64_t batch_size = 8, Padding padding = Padding::bucket,
                                    Duration unit = std::chrono::milliseconds(1)) {
  const Geometry& geometry = *find_geometry("a100-80gb");
  PlannedDevice device{"gpu-0", "a100-80gb", geometry, {}};
  const Replica replica{"rank", {{32, batch_size}, {128, batch_size}}, 1};
  for (const auto& [name, start] : {std::pair{"4g.40gb", 0}, std::pair{"3g.40gb", 4}}) {
    const auto profile = static_cast<std::uint16_t>(*find_profile(geometry, name));
    device.slices.push_back({{profile, static_cast<std::uint16_t>(start)}, {replica}});
  }
  auto compiled = sched::compile({{device}}, workload(padding), LinearModel(unit));
  EXPECT_TRUE(compiled.ok());
  return std::move(*compiled);
}

}  // namespace tangram::serve::test

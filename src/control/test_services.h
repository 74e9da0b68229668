// One service on A100s whose run times are a formula, for the tests of this room.
#pragma once

#include <chrono>
#include <optional>

#include "core/latency_model.h"
#include "plan/problem.h"

namespace tangram::control {

// Planned by ParvaGPU's rule, so that no certifier is needed.
class TestServices {
 public:
  explicit TestServices(int devices, Traffic traffic = PoissonTraffic{4}) {
    Service service;
    service.name = "a";
    service.model = "net";
    service.slo = {std::chrono::seconds(2), 95};
    service.traffic = std::move(traffic);
    problem_.workload.services.push_back(service);
    DeviceGroup group;
    group.name = "rack";
    group.type = "a100-80gb";
    group.count = devices;
    problem_.fleet.groups.push_back(group);
    problem_.options.rule = plan::Rule::half;
    problem_.latency = &latency_;
  }

  TestServices(const TestServices&) = delete;  // The problem points into this.
  TestServices& operator=(const TestServices&) = delete;

  const plan::Problem& problem() const { return problem_; }

 private:
  // A launch of 10 ms, then 250 ms a request, divided by the compute slices that the profile's name begins with.
  class Linear final : public LatencyModel {
   public:
    std::optional<Prediction> predict(const RunPoint& point) const override {
      const double slices = point.mig_profile.front() - '0';
      const Duration time = from_seconds(0.010 + 0.250 * static_cast<double>(point.batch) / slices);
      return Prediction{.mean = time, .p99 = time};
    }
  };

  Linear latency_;
  plan::Problem problem_;
};

}  // namespace tangram::control

// A latency model and problems whose duty cycles can be computed by hand, for the tests of nexus and gpulet.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plan/problem.h"

namespace tangram::plan {

// A batch of b takes (4 + 2 b) / s ms on s compute slices, always, and runs only on the kinds named, if any are. The
// weights of a model take 1,000 MiB and each sample of a batch 10 MiB more.
class CycleModel final : public LatencyModel {
 public:
  explicit CycleModel(std::vector<std::string> kinds = {}) : kinds_(std::move(kinds)) {}

  std::optional<Prediction> predict(const RunPoint& point) const override {
    if (!kinds_.empty() && std::ranges::find(kinds_, point.mig_profile) == kinds_.end()) return std::nullopt;
    const double slices = point.mig_profile[0] - '0';
    const Duration takes = from_milliseconds((4 + 2 * static_cast<double>(point.batch)) / slices);
    return Prediction{takes, takes, 1000 + 10 * static_cast<double>(point.batch)};
  }
  std::optional<double> weights_mib(std::string_view, std::string_view, std::string_view) const override {
    return 1000;
  }

 private:
  std::vector<std::string> kinds_;
};

inline Service cycle_service(const std::string& name, double rate_per_s, Duration slo) {
  Service service;
  service.name = service.model = name;
  service.slo = {slo, 99};
  service.traffic = PoissonTraffic{rate_per_s};
  return service;
}

inline Problem cycle_problem(const LatencyModel& model, std::vector<Service> services) {
  Problem problem;
  DeviceGroup group;
  group.name = group.type = "a100-80gb";
  group.profiles = ProfileSet::base;
  problem.fleet.groups = {group};
  problem.workload.services = std::move(services);
  problem.latency = &model;
  problem.options.rule = Rule::no_waiting;
  return problem;
}

// "1g.10gb a:8 b:2" for each slice in use, ascending.
inline std::vector<std::string> slices_of(const Plan& plan) {
  std::vector<std::string> slices;
  for (const auto& device : plan.devices) {
    for (const auto& slice : device.slices) {
      if (slice.replicas.empty()) continue;
      std::string text = device.geometry.profiles[slice.slice.profile].name;
      for (const auto& replica : slice.replicas) {
        text += fmt::format(" {}:{}", replica.service, replica.buckets[0].batch_size);
      }
      slices.push_back(std::move(text));
    }
  }
  std::ranges::sort(slices);
  return slices;
}

// Says that promises hold on slices with at most `most` replicas.
class CountingCertifier final : public Certifier {
 public:
  explicit CountingCertifier(std::size_t most) : most_(most) {}

  Verdict certify(const Service&, std::span<const ReplicaGroup>, bool) override { return verdict(true); }
  std::vector<Verdict> certify_together(std::span<const Service> services, std::span<const SharedGroup> groups,
                                        bool) override {
    const bool holds = std::ranges::all_of(groups, [&](const auto& group) { return group.replicas.size() <= most_; });
    return std::vector<Verdict>(services.size(), verdict(holds));
  }

 private:
  static Verdict verdict(bool holds) { return {.holds = holds, .attainment = holds ? 1.0 : 0.5}; }

  std::size_t most_;
};

}  // namespace tangram::plan

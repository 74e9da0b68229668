// A model with memory, and small problems whose services may share slices, for the tests of this room.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/geometry.h"
#include "plan/problem.h"

namespace tangram::plan {

// Run times in proportion to the batch and inverse to the compute slices; memory is the weights and 100 MiB a sample.
class LinearModel final : public LatencyModel {
 public:
  struct Run {
    double ms = 10;  // One sample on one compute slice.
    double weights_mib = 1000;
    double load_ms = 0;  // Zero: not known.
  };
  std::map<std::string, Run, std::less<>> runs;

  std::optional<Prediction> predict(const RunPoint& point) const override {
    const auto run = runs.find(point.model);
    const Geometry* geometry = find_geometry(point.device);
    if (run == runs.end() || geometry == nullptr || point.processes > 1) return std::nullopt;
    const MigProfile& profile = geometry->profiles[*find_profile(*geometry, point.mig_profile)];
    const double memory = run->second.weights_mib + 100 * static_cast<double>(point.batch);
    if (memory > 1024 * profile.memory_gib.value) return std::nullopt;
    const double ms = run->second.ms * static_cast<double>(point.batch) / profile.compute_slices;
    return Prediction{from_milliseconds(ms), from_milliseconds(ms), memory};
  }
  std::optional<double> weights_mib(std::string_view, std::string_view, std::string_view model) const override {
    const auto run = runs.find(model);
    if (run == runs.end() || run->second.weights_mib <= 0) return std::nullopt;
    return run->second.weights_mib;
  }
  std::optional<Duration> load_time(std::string_view, std::string_view, std::string_view model) const override {
    const auto run = runs.find(model);
    if (run == runs.end() || run->second.load_ms <= 0) return std::nullopt;
    return from_milliseconds(run->second.load_ms);
  }
};

inline Service service_of(const std::string& name, const std::string& model, double rate_per_s,
                          Duration slo = from_milliseconds(200)) {
  Service service;
  service.name = name;
  service.model = model;
  service.weights = name;
  service.slo.latency = slo;
  service.traffic = PoissonTraffic{rate_per_s};
  return service;
}

inline Problem problem_of(const LinearModel& model, std::vector<Service> services, int devices = 8,
                          const std::string& type = "a30") {
  Problem problem;
  DeviceGroup group;
  group.name = "g";
  group.type = type;
  group.count = devices;
  problem.fleet.groups.push_back(group);
  problem.workload.services = std::move(services);
  problem.latency = &model;
  problem.options.rule = Rule::half;
  problem.options.sharing = Sharing::all;
  problem.options.batches = {1};
  problem.options.memory_headroom = 0;
  return problem;
}

}  // namespace tangram::plan

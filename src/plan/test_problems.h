// Small problems, and a model and a certifier that answer by a formula, for the tests of this room.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "core/geometry.h"
#include "plan/check_plan.h"
#include "plan/demand.h"
#include "plan/problem.h"

namespace tangram::plan {

// A batch takes launch + work * batch * size / compute slices; p99 is a tenth more. A model whose name ends in "-big"
// fits only slices of three compute slices and more; "nowhere" fits none.
class FormulaModel final : public LatencyModel {
 public:
  explicit FormulaModel(double launch_ms = 2, double work_ms = 1) : launch_ms_(launch_ms), work_ms_(work_ms) {}

  std::optional<Prediction> predict(const RunPoint& point) const override {
    const Geometry* geometry = find_geometry(point.device);
    if (geometry == nullptr || point.model == "nowhere" || point.batch > 64) return std::nullopt;
    const auto profile = find_profile(*geometry, point.mig_profile);
    if (!profile) return std::nullopt;
    const int slices = geometry->profiles[*profile].compute_slices;
    if (point.model.ends_with("-big") && slices < 3) return std::nullopt;
    const double chip = point.device.starts_with("h100") ? 0.5 : point.device == "a30" ? 1.2 : 1;
    const double ms = launch_ms_ + chip * work_ms_ * static_cast<double>(point.batch * point.size) / slices *
                                       static_cast<double>(point.processes);
    return Prediction{from_milliseconds(ms), from_milliseconds(1.1 * ms)};
  }

 private:
  double launch_ms_;
  double work_ms_;
};

inline DeviceGroup group_of(const std::string& type, double price = 1, std::optional<int> count = {}) {
  DeviceGroup group;
  group.name = group.type = type;
  group.count = count;
  group.price_per_hour = price;
  group.profiles = ProfileSet::base;
  return group;
}

inline Service planned_service(const std::string& name, double rate_per_s, Duration slo = from_milliseconds(100)) {
  Service service;
  service.name = name;
  service.model = name;
  service.slo = {slo, 99};
  service.traffic = PoissonTraffic{rate_per_s};
  return service;
}

inline Problem problem_of(const LatencyModel& model, std::vector<Service> services) {
  Problem problem;
  problem.fleet.groups = {group_of("a100-80gb")};
  problem.workload.services = std::move(services);
  problem.latency = &model;
  problem.options.rule = Rule::half;
  return problem;
}

inline PlanAnswer plan_by(std::string_view planner, const Problem& problem) {
  return find_planner(planner)->make()->plan(problem);
}

inline std::string problems_of(const Problem& problem, const PlanAnswer& answer) {
  Problem asked = problem;
  asked.options.demand_factor *= answer.headroom;
  return text::join(check_plan(asked, answer.plan), "\n");
}

// Says yes to everything while a plan is searched, and when it is confirmed only to so many requests a second for each
// compute slice.
class StricterOnSecondLook final : public Certifier {
 public:
  explicit StricterOnSecondLook(double rate_per_slice) : rate_per_slice_(rate_per_slice) {}
  Verdict certify(const Service& service, std::span<const ReplicaGroup> groups, bool confirm) override {
    ++asked;
    double slices = 0;
    for (const auto& group : groups) slices += group.count * group.compute_slices;
    const bool holds = !confirm || planning_rate_per_s(service) <= rate_per_slice_ * slices;
    return {.holds = holds,
            .attainment = holds ? 1.0 : 0.5,
            .attainment_low = holds ? 1.0 : 0.4,
            .attainment_high = holds ? 1.0 : 0.6,
            .latency = holds ? from_milliseconds(1) : Duration::max()};
  }
  int asked = 0;

 private:
  double rate_per_slice_;
};

}  // namespace tangram::plan

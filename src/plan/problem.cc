// Names of rules, objectives and planners, and the group that a planned device belongs to.

#include "plan/problem.h"

#include <array>

namespace tangram::plan {

// planners.def lists each planner once; it gives the declarations here and the table below, in the same order.
#define TANGRAM_PLANNER(name, summary) std::unique_ptr<Planner> make_##name();
#include "plan/planners/planners.def"
#undef TANGRAM_PLANNER

namespace {

constexpr PlannerInfo kPlanners[] = {
#define TANGRAM_PLANNER(name, summary) {#name, summary, make_##name},
#include "plan/planners/planners.def"
#undef TANGRAM_PLANNER
};

// In the order of the enumerations.
constexpr std::array<std::string_view, 3> kRules{"half", "certified", "no_waiting"};
constexpr std::array<std::string_view, 3> kObjectives{"devices", "price", "headroom"};

constexpr std::array<std::string_view, 3> kSharings{"none", "model", "all"};

}  // namespace

std::string_view to_string(Sharing sharing) { return kSharings[static_cast<std::size_t>(sharing)]; }
std::optional<Sharing> parse_sharing(std::string_view name) {
  for (std::size_t i = 0; i < kSharings.size(); ++i) {
    if (kSharings[i] == name) return static_cast<Sharing>(i);
  }
  return std::nullopt;
}

std::string_view to_string(Rule rule) { return kRules[static_cast<std::size_t>(rule)]; }
std::optional<Rule> parse_rule(std::string_view name) {
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    if (kRules[i] == name) return static_cast<Rule>(i);
  }
  return std::nullopt;
}

std::string_view to_string(Objective objective) { return kObjectives[static_cast<std::size_t>(objective)]; }
std::optional<Objective> parse_objective(std::string_view name) {
  for (std::size_t i = 0; i < kObjectives.size(); ++i) {
    if (kObjectives[i] == name) return static_cast<Objective>(i);
  }
  return std::nullopt;
}

const DeviceGroup* group_of_device(const Fleet& fleet, const PlannedDevice& device) {
  for (const auto& group : fleet.groups) {
    DeviceGroup any = group;
    any.count.reset();  // Also a number beyond the group's count names it.
    // Names of groups differ.
    if (device_number(any, device.name)) return group.type == device.type ? &group : nullptr;
  }
  return nullptr;
}

// A static table: names and functions exist before main() and need no registration.
std::span<const PlannerInfo> planners() { return kPlanners; }

const PlannerInfo* find_planner(std::string_view name) {
  for (const auto& info : kPlanners) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

std::vector<Verdict> Certifier::certify_together(std::span<const Service> services, std::span<const SharedGroup>,
                                                 bool) {
  return std::vector<Verdict>(services.size());
}

}  // namespace tangram::plan

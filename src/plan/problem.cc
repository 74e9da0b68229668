#include "plan/problem.h"

#include <array>

namespace tangram::plan {

#define TANGRAM_PLANNER(name, summary) std::unique_ptr<Planner> make_##name();
#include "plan/planners/planners.def"
#undef TANGRAM_PLANNER

namespace {

constexpr PlannerInfo kPlanners[] = {
#define TANGRAM_PLANNER(name, summary) {#name, summary, make_##name},
#include "plan/planners/planners.def"
#undef TANGRAM_PLANNER
};

constexpr std::array<std::string_view, 3> kRules{"half", "certified", "no_waiting"};
constexpr std::array<std::string_view, 3> kObjectives{"devices", "price", "headroom"};

}  // namespace

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

std::span<const PlannerInfo> planners() { return kPlanners; }

const PlannerInfo* find_planner(std::string_view name) {
  for (const auto& info : kPlanners) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

}  // namespace tangram::plan

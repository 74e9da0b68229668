// Reduces the three objectives to plain planning: fewest devices, least price, most headroom. Free devices need care:
// at price zero a plan could waste them, and prices could not be compared by their ratios.

#include "plan/objective.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "plan/detail/no_plan.h"
#include "plan/explain.h"
#include "plan/headroom.h"
#include "plan/spare.h"

namespace tangram::plan {
namespace {

// All free devices of a fleet together are planned as if they cost this share of the cheapest other device: enough
// that no more of them are taken than are useful, and too little to affect other decisions.
constexpr double kFreeShare = 1.0 / 1024;

// The reason why the lowest price cannot be sought; empty if it can.
std::string why_not_priced(const Fleet& fleet) {
  const auto free = [](const DeviceGroup& group) { return group.price_per_hour <= 0; };
  if (!fleet.groups.empty() && std::ranges::all_of(fleet.groups, free)) {
    return "no device of the fleet has a price_per_hour; give prices, or choose the objective devices";
  }
  for (const auto& group : fleet.groups) {
    if (!free(group) || group.count) continue;
    return fmt::format(
        "{} costs nothing and has no limit, so no other type would ever be used; give it a price_per_hour or a count",
        group_name(group));
  }
  return {};
}

// Devices that cost nothing are planned at a tiny price and reported at their real one.
PlanAnswer plan_priced(const Problem& problem, const PlanOnce& plan_once) {
  if (auto reason = why_not_priced(problem.fleet); !reason.empty()) return detail::no_plan("", std::move(reason));
  double least = std::numeric_limits<double>::infinity();
  int free = 0;
  for (const auto& group : problem.fleet.groups) {
    if (group.price_per_hour > 0) least = std::min(least, group.price_per_hour);
    if (group.price_per_hour <= 0) free += *group.count;
  }
  if (free == 0) return plan_with_spare(problem, plan_once);
  Problem priced = problem;
  for (auto& group : priced.fleet.groups) {
    if (group.price_per_hour <= 0) group.price_per_hour = kFreeShare * least / free;
  }
  PlanAnswer answer = plan_with_spare(priced, plan_once);
  if (answer.status != PlanStatus::planned) return answer;
  answer.price = plan_price(problem, answer.plan);
  // The tiny prices add up to at most kFreeShare * least, so the bound is reduced by that.
  answer.bound = answer.proved ? answer.price : std::max(0.0, answer.bound - kFreeShare * least);
  return answer;
}

}  // namespace
PlanAnswer plan_for_objective(const Problem& problem, const PlanOnce& plan_once) {
  switch (problem.options.objective) {
    case Objective::headroom: return plan_headroom(problem, plan_once);
    case Objective::price: return plan_priced(problem, plan_once);
    case Objective::devices: break;
  }
  return plan_with_spare(problem, plan_once);
}

}  // namespace tangram::plan

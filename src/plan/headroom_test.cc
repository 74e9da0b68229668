#include "plan/headroom.h"

#include <gtest/gtest.h>

#include "plan/explain.h"
#include "plan/test_problems.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

TEST(Headroom, IsTheLargestFactorThatTheFleetCarries) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 500), planned_service("b", 300, 50ms)});
  problem.options.objective = Objective::headroom;
  problem.fleet.groups = {group_of("a100-80gb", 1, 3)};
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_GT(answer.headroom, 1);
  EXPECT_LE(answer.devices, 3);
  EXPECT_EQ(problems_of(problem, answer), "");
  // Two parts in a hundred more do not fit.
  problem.options.objective = Objective::devices;
  problem.workload = scale_rates(problem.workload, 1.02 * answer.headroom);
  EXPECT_EQ(plan_by("elastic", problem).status, PlanStatus::infeasible);
}

TEST(Headroom, BelowOneTellsHowMuchOfTheRatesFits) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 50000)});
  problem.options.objective = Objective::headroom;
  problem.fleet.groups = {group_of("a100-80gb", 1, 2)};
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_LT(answer.headroom, 1);
  EXPECT_GT(answer.headroom, 0.1);
}

TEST(Headroom, NeedsAFleetOfFixedSize) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 500)});
  problem.options.objective = Objective::headroom;
  EXPECT_EQ(
      plan_by("elastic", problem).reason,
      "the headroom is unlimited on a fleet without a limit; give a100-80gb a count, or choose another objective");
}

// One device has seven compute slices, and 100/s are allowed on each: never more than seven times 100/s. By capacity
// alone 970/s run on each. The search asks for room in steps, so it may end below seven, and not far below.
TEST(Headroom, IsAFactorAtWhichEveryServiceWasConfirmed) {
  const FormulaModel model;
  StricterOnSecondLook certifier(100);
  Problem problem = problem_of(model, {planned_service("a", 100)});
  problem.options.rule = Rule::certified;
  problem.options.objective = Objective::headroom;
  problem.fleet.groups = {group_of("a100-80gb", 1, 1)};
  problem.certifier = &certifier;
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_TRUE(answer.services[0].verdict->holds);
  EXPECT_LE(answer.headroom, 7);
  EXPECT_GT(answer.headroom, 3.5);
  EXPECT_FALSE(answer.proved);
  EXPECT_EQ(why_not_fewer(problem, answer).find("devices takes"), std::string::npos);
}

}  // namespace
}  // namespace tangram::plan

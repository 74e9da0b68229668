#include "plan/explain.h"

#include <gtest/gtest.h>

#include "plan/test_problems.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

TEST(Explain, CostsOfServicesSumToThePrice) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 2000), planned_service("b", 700, 30ms)});
  problem.options.objective = Objective::price;
  problem.fleet.groups = {group_of("a100-80gb", 1.8), group_of("a30", 0.6, 2)};
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned);
  double sum = 0;
  for (const double cost : service_costs(problem, answer)) sum += cost;
  EXPECT_NEAR(sum, answer.price, 1e-9);
}

// Rule half leaves 0.45 * 4.8 ms = 2.16 ms: only 7g is fast enough, for batches of one, 467/s: two devices for 600/s.
// With 5.76 ms, 2.592 ms are left: 2g (2.5 ms, 400/s) will do, and one device has three.
TEST(Explain, FindsWhatALongerSloSaves) {
  const FormulaModel model;
  const Problem problem = problem_of(model, {planned_service("a", 600, 4800us), planned_service("b", 10, 400ms)});
  const auto planner = find_planner("elastic")->make();
  const PlanAnswer answer = planner->plan(problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  const auto relief = slo_relief(problem, *planner, answer);
  ASSERT_EQ(relief.size(), 2u);
  EXPECT_GE(relief[0].saved(), 1);
  EXPECT_EQ(relief[1].saved(), 0);
  EXPECT_EQ(relief[0].basis, ReliefBasis::planned);
  EXPECT_NE(why_not_fewer(problem, answer).find("this is the best of them"), std::string::npos);
}

}  // namespace
}  // namespace tangram::plan

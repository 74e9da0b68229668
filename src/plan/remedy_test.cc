#include "plan/remedy.h"

#include <gtest/gtest.h>

#include "plan/headroom.h"
#include "plan/test_problems.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

Problem too_small(const LatencyModel& model) {
  Problem problem = problem_of(model, {planned_service("a", 30000, 300ms), planned_service("b", 100, 300ms)});
  problem.fleet.groups = {group_of("a100-80gb", 1, 2)};
  return problem;
}

// 30,000/s take five devices of about 6,800/s each, and the fleet has two: about 0.4 times the rates fit.
TEST(Remedy, NamesDevicesRatesAndTheServiceThatTakesMost) {
  const FormulaModel model;
  const Problem problem = too_small(model);
  const auto planner = find_planner("elastic")->make();
  ASSERT_EQ(planner->plan(problem).status, PlanStatus::infeasible);
  const Remedy remedy = find_remedy(problem, *planner);
  ASSERT_TRUE(remedy.devices && remedy.rate_factor);
  EXPECT_EQ(remedy.service, "a");
  EXPECT_GT(remedy.service_devices, 4);
  // What it names can be had.
  Problem more = problem;
  more.fleet.groups[0].count = remedy.devices;
  EXPECT_EQ(planner->plan(more).status, PlanStatus::planned);
  Problem slower = problem;
  slower.workload = scale_rates(problem.workload, *remedy.rate_factor);
  EXPECT_EQ(planner->plan(slower).status, PlanStatus::planned);
  // And 10 % more than the factor cannot.
  slower.workload = scale_rates(problem.workload, 1.1 * *remedy.rate_factor);
  EXPECT_EQ(planner->plan(slower).status, PlanStatus::infeasible);
}

TEST(Remedy, AsksTheCertifierALimitedNumberOfTimes) {
  const FormulaModel model;
  StricterOnSecondLook certifier(500);
  Problem problem = too_small(model);
  problem.options.rule = Rule::certified;
  problem.certifier = &certifier;
  find_remedy(problem, *find_planner("elastic")->make(), {.questions_max = 20});
  EXPECT_LE(certifier.asked, 20);
}

TEST(Remedy, HasNothingToSayOfAFleetWithoutLimits) {
  const FormulaModel model;
  const Problem problem = problem_of(model, {planned_service("a", 10, 1ms)});
  EXPECT_TRUE(find_remedy(problem, *find_planner("elastic")->make()).empty());
  EXPECT_EQ(to_text(Remedy{}), "");
}

}  // namespace
}  // namespace tangram::plan

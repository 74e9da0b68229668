// Plans for the lowest price.

#include <gtest/gtest.h>

#include "plan/explain.h"
#include "plan/headroom.h"
#include "plan/test_problems.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

// On an H100 a run takes half as long at three times the price, and an A30 is slower and cheap: at these prices A30s
// win wherever the model fits them, and "vision-big", which needs three compute slices, may still use the A30's 4g.
TEST(Price, AMixedFleetIsNeverDearerThanAnyOfItsPartsAlone) {
  const FormulaModel model;
  const std::vector<Service> services{planned_service("a", 2500, 60ms), planned_service("vision-big", 800, 40ms),
                                      planned_service("c", 90, 15ms)};
  const std::vector<DeviceGroup> parts{group_of("a30", 0.45), group_of("a100-80gb", 1.8), group_of("h100-80gb", 3.5)};
  Problem problem = problem_of(model, services);
  problem.options.objective = Objective::price;
  problem.fleet.groups = parts;
  const PlanAnswer mixed = plan_by("elastic", problem);
  ASSERT_EQ(mixed.status, PlanStatus::planned) << mixed.reason;
  EXPECT_EQ(problems_of(problem, mixed), "");
  EXPECT_NEAR(mixed.price, plan_price(problem, mixed.plan), 1e-9);
  EXPECT_LE(mixed.bound, mixed.price + 1e-9);
  int planned = 0;
  for (const auto& part : parts) {
    Problem alone = problem;
    alone.fleet.groups = {part};
    const PlanAnswer answer = plan_by("elastic", alone);
    if (answer.status != PlanStatus::planned) continue;
    ++planned;
    EXPECT_EQ(problems_of(alone, answer), "") << part.type;
    EXPECT_LE(mixed.price, answer.price + 1e-9) << part.type;
  }
  EXPECT_GT(planned, 1);
}

// In batches of 16 a slice of one runs 16 / 18 ms = 889/s on an A100, 6222/s in all, and 16 / 21.2 ms = 755/s on an
// A30, 3019/s in all. One of each carries 8500/s for 2.0 an hour; two A100s cost 3.6, and there is only one A30.
TEST(Price, TakesTheCheapBoardFirstAndTheDearOneForTheRest) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 8500, 60ms)});
  problem.options.objective = Objective::price;
  problem.fleet.groups = {group_of("a30", 0.2, 1), group_of("a100-80gb", 1.8)};
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_EQ(problems_of(problem, answer), "");
  const auto boards = std::ranges::count(answer.plan.devices, "a30", &PlannedDevice::type);
  EXPECT_EQ(boards, 1);
  EXPECT_EQ(answer.plan.devices.size(), 2u);
}

// The name of one group begins with that of the other, and of the cheaper one there is only one device.
TEST(Price, IsThatOfTheGroupThatADeviceIsTakenFrom) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 8500, 60ms)});
  problem.options.objective = Objective::price;
  problem.fleet.groups = {group_of("a30", 3, 1), group_of("a30", 5)};
  problem.fleet.groups[0].name = "x";
  problem.fleet.groups[1].name = "x-1";
  for (const auto spare : {SparePolicy::none, SparePolicy::one_device}) {
    problem.fleet.spare = spare;
    const PlanAnswer answer = plan_by("elastic", problem);
    ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
    EXPECT_NEAR(answer.price, 3 + 5 * (answer.devices - 1), 1e-9);
    EXPECT_NEAR(plan_price(problem, answer.plan), answer.price, 1e-9);
    EXPECT_GE(answer.price, answer.bound);
    EXPECT_EQ(problems_of(problem, answer), "");
  }
}

// 755/s on each of the four slices of an A30 and 889/s on the seven of an A100: two free A30s carry 6000/s alone, and
// 8500/s take an A100 as well.
TEST(Price, FreeDevicesAreTakenAsFarAsTheyAreOfUse) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 6000, 60ms)});
  problem.options.objective = Objective::price;
  problem.fleet.groups = {group_of("a30", 0, 9), group_of("a100-80gb", 2)};
  const PlanAnswer free = plan_by("elastic", problem);
  EXPECT_EQ(free.devices, 2);
  EXPECT_EQ(free.price, 0);
  EXPECT_TRUE(free.proved);
  problem.fleet.groups[0].count = 2;
  problem.workload = scale_rates(problem.workload, 8500.0 / 6000);
  const PlanAnswer bought = plan_by("elastic", problem);
  EXPECT_EQ(bought.price, 2);
  EXPECT_EQ(bought.bound, 2);
  EXPECT_TRUE(bought.proved);
  // Buckets are worth having on them, too.
  problem.workload.services[0].input_size = HistogramSize{"", {{1, 9}, {8, 1}}};
  EXPECT_EQ(plan_by("elastic", problem).services[0].edges.size(), 2u);
}

TEST(Price, NeedsPrices) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 100)});
  problem.options.objective = Objective::price;
  problem.fleet.groups = {group_of("a30", 0), group_of("a100-80gb", 0)};
  EXPECT_EQ(plan_by("elastic", problem).reason,
            "no device of the fleet has a price_per_hour; give prices, or choose the objective devices");
  problem.fleet.groups[1].price_per_hour = 2;
  EXPECT_EQ(plan_by("elastic", problem).reason,
            "a30 costs nothing and has no limit, so no other type would ever be used; give it a price_per_hour or a "
            "count");
}

}  // namespace
}  // namespace tangram::plan

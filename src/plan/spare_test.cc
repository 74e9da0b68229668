#include <gtest/gtest.h>

#include <map>

#include "plan/explain.h"
#include "plan/test_problems.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

TEST(Spare, AnyDeviceMayBeLost) {
  const FormulaModel model;
  for (const double scale : {0.1, 1.0, 12.0}) {
    Problem problem = problem_of(model, {planned_service("a", 900 * scale), planned_service("b", 300 * scale, 50ms),
                                         planned_service("c", 40, 30ms)});
    const PlanAnswer bare = plan_by("elastic", problem);
    problem.fleet.spare = SparePolicy::one_device;
    EXPECT_NE(problems_of(problem, bare), "") << scale;  // The check does see that nothing was held back.
    for (const auto& info : planners()) {
      const PlanAnswer answer = plan_by(info.name, problem);
      ASSERT_EQ(answer.status, PlanStatus::planned) << info.name << ": " << answer.reason;
      EXPECT_EQ(problems_of(problem, answer), "") << info.name << " at " << scale;
    }
    const PlanAnswer spared = plan_by("elastic", problem);
    EXPECT_GT(spared.devices, bare.devices) << scale;
    EXPECT_LE(spared.devices, 2 * bare.devices) << scale;
  }
}

// Four compute slices for every hundred requests a second are more than capacity asks for: 970/s run on each.
TEST(Spare, IsCertifiedWithTheDevicesThatItEndsWith) {
  const FormulaModel model;
  StricterOnSecondLook certifier(25);
  Problem problem = problem_of(model, {planned_service("a", 150), planned_service("b", 50, 50ms)});
  problem.fleet.groups = {group_of("a30", 0.45, 2), group_of("a100-80gb", 1.8, 4)};
  problem.fleet.spare = SparePolicy::one_device;
  problem.options.rule = Rule::certified;
  problem.options.objective = Objective::price;
  problem.certifier = &certifier;
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_EQ(problems_of(problem, answer), "");
  for (const auto& service : answer.services) {
    double slices = 0;
    for (const auto& group : service.groups) {
      EXPECT_GT(group.count, 0) << group.mig_profile;
      slices += group.count * group.compute_slices;
    }
    EXPECT_GE(25 * slices, service.rate_per_s) << service.service;
    EXPECT_TRUE(service.verdict && service.verdict->holds) << service.service;
  }
  EXPECT_NEAR(answer.price, plan_price(problem, answer.plan), 1e-9);
  EXPECT_EQ(answer.proved, answer.price <= answer.bound + 1e-9);
}

// 25/s are allowed on each compute slice when it is looked at again, and 970/s run there: capacity asks for one slice
// of each service after a loss, promises for six and two.
TEST(Spare, KeepsPromisesWithoutAnyOneDevice) {
  const FormulaModel model;
  StricterOnSecondLook certifier(25);
  Problem problem = problem_of(model, {planned_service("a", 150), planned_service("b", 50, 50ms)});
  problem.fleet.spare = SparePolicy::one_device;
  problem.options.rule = Rule::certified;
  problem.certifier = &certifier;
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  for (const auto& lost : answer.plan.devices) {
    std::map<std::string, int> slices;
    for (const auto& device : answer.plan.devices) {
      for (const auto& slice : device.slices) {
        if (device.name == lost.name || slice.replicas.empty()) continue;
        slices[slice.replicas[0].service] += device.geometry.profiles[slice.slice.profile].compute_slices;
      }
    }
    EXPECT_GE(slices["a"], 6) << lost.name;
    EXPECT_GE(slices["b"], 2) << lost.name;
  }
}

// What is left after a loss is a plan: one device more than without spares is the least, and here it is enough.
TEST(Spare, IsProvedBestWithOneDeviceMore) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 9000, 60ms)});
  const PlanAnswer bare = plan_by("elastic", problem);
  problem.fleet.spare = SparePolicy::one_device;
  const PlanAnswer answer = plan_by("elastic", problem);
  EXPECT_EQ(answer.devices, bare.devices + 1);
  EXPECT_EQ(answer.bound, bare.bound + 1);
  EXPECT_TRUE(bare.proved && answer.proved);
  EXPECT_EQ(problems_of(problem, answer), "");
}

// A run takes half as long on an H100, so that one of them carries what there is; of two that could stand in for each
// other there is only one. The A100s stand in.
TEST(Spare, TakesDevicesOfAnotherTypeWhereItsOwnAreTooFew) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 6000, 60ms), planned_service("b", 2000, 60ms)});
  problem.fleet.groups = {group_of("h100-80gb", 1, 1), group_of("a100-80gb", 1, 4)};
  ASSERT_EQ(plan_by("elastic", problem).devices, 1);
  problem.fleet.spare = SparePolicy::one_device;
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_EQ(problems_of(problem, answer), "");
}

TEST(Spare, SaysHowManyDevicesAreMissing) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 100)});
  problem.fleet.groups = {group_of("a100-80gb", 1, 1)};
  problem.fleet.spare = SparePolicy::one_device;
  EXPECT_EQ(plan_by("elastic", problem).reason,
            "the best plan found that survives the loss of any one device takes 2 of a100-80gb, but the fleet has 1; "
            "add 1 or set spare: none; no plan takes fewer than 2");
}

}  // namespace
}  // namespace tangram::plan

// ParvaGPU's greedy planner on problems small enough to follow by hand.

#include <gtest/gtest.h>

#include <map>

#include "plan/test_problems.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

// A run of one takes 2 + 1/s ms on s compute slices, and half of an Slo of 8 ms less a tenth is 3.6 ms. Batches of
// 1, 1, 3 and 11 would do; of powers of two, 1 on 1g (333/s) and 8 on 7g (2 + 8/7 = 3.14 ms, 2545/s). Per compute slice
// that is 333 for 1g; 2g runs 2 (3 ms, 667/s), 333; 3g runs 4 (3.33 ms, 1200/s), 400; 4g runs 4 (3 ms, 1333/s), 333;
// 7g 363. ParvaGPU takes 3g: 1300/s is one of them, and the rest, 100/s, fits 1g.
TEST(Parva, TakesTheMostEfficientSizeAndOneSmallerForTheRest) {
  const FormulaModel model;
  const Problem problem = problem_of(model, {planned_service("a", 1300, 8ms)});
  const PlanAnswer answer = plan_by("parva", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned);
  ASSERT_EQ(answer.devices, 1);
  std::map<std::string, int> counts;
  for (const auto& slice : answer.plan.devices[0].slices) {
    ++counts[answer.plan.devices[0].geometry.profiles[slice.slice.profile].name];
  }
  EXPECT_EQ(counts, (std::map<std::string, int>{{"1g.10gb", 1}, {"3g.40gb", 1}}));
  EXPECT_EQ(problems_of(problem, answer), "");
}

// Five slices of one on boards that hold four: two boards, also where the board has places that ParvaGPU's lacks.
// 16 / 18 ms = 889/s on each slice.
TEST(Parva, UsesAllPlacesOfABoard) {
  const FormulaModel model;
  for (const char* type : {"a30", "rtx-pro-6000"}) {
    Problem problem = problem_of(model, {planned_service("a", 3500, 60ms)});
    problem.fleet.groups = {group_of(type)};
    const PlanAnswer answer = plan_by("parva", problem);
    ASSERT_EQ(answer.status, PlanStatus::planned) << type;
    EXPECT_EQ(answer.plan.devices[0].slices.size(), 4u) << type;
    EXPECT_EQ(problems_of(problem, answer), "") << type;
  }
}

// On 3g a batch of 16 takes 2 + 16/3 = 7.33 ms, within 0.9 of half an Slo of 20 ms: 2182/s, 727 for each compute slice.
// 4g (16 in 6 ms: 2667/s) and 7g (32 in 6.57 ms: 4870/s) have less, and smaller slices cannot hold the models. So each
// service needs one 3g. A board has room for two of them, at 0 and at 4, but ParvaGPU starts a 3g at 4 alone.
TEST(Parva, StartsSlicesOfThreeAtFourAlone) {
  const FormulaModel model;
  const Problem problem =
      problem_of(model, {planned_service("a-big", 2000, 20ms), planned_service("b-big", 2000, 20ms)});
  const PlanAnswer answer = plan_by("parva", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned);
  ASSERT_EQ(answer.devices, 2);
  for (const auto& device : answer.plan.devices) {
    ASSERT_EQ(device.slices.size(), 1u);
    EXPECT_EQ(device.geometry.profiles[device.slices[0].slice.profile].name, "3g.40gb");
    EXPECT_EQ(device.slices[0].slice.start, 4);
  }
  EXPECT_EQ(problems_of(problem, answer), "");
  EXPECT_EQ(plan_by("elastic", problem).devices, 1);
}

}  // namespace
}  // namespace tangram::plan

// The rule of gpulets on cases that can be computed by hand.

#include <gtest/gtest.h>

#include "base/text.h"
#include "plan/check_plan.h"
#include "plan/planners/cycle_fixture.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;
using Slices = std::vector<std::string>;

PlanAnswer plan_gpulet(const Problem& problem) {
  PlanAnswer answer = find_planner("gpulet")->make()->plan(problem);
  EXPECT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_EQ(text::join(check_plan(problem, answer.plan), "\n"), "");
  return answer;
}

// Runs within 20 ms: 1g runs batches of 8 in 20 ms, 400/s. 2g runs 16 in 18 ms, 889/s: 489 more for one more slice.
// 3g runs 16 in 12 ms, 1333/s: 444 more. 4g runs 32 in 17 ms, 1882/s: 549 more. 7g runs 64 in 18.9 ms, 3394/s: 504 for
// each of three more. The efficient size is 4g. 3000/s are one full slice of 4g, and 1118/s for which 3g has the
// throughput: batches of 16 gather in 14.3 ms and run in 12, within 40; 32 would take 28.6 + 22.7.
TEST(Gpulet, TakesTheSizeThatAddsMostAndTheSmallestForTheRest) {
  const CycleModel model;
  const auto answer = plan_gpulet(cycle_problem(model, {cycle_service("a", 3000, 40ms)}));
  EXPECT_EQ(slices_of(answer.plan), (Slices{"3g.40gb a:16", "4g.40gb a:32"}));
  EXPECT_EQ(answer.devices, 1);
}

// a: 50/s at 100 ms, cycle 80 ms with 4 of 12 ms. b: 20/s at 60 ms, cycle 50 ms with 1 of 6 ms. In a cycle of 50 ms, 3
// of a take 10 ms and 1 of b 6: 50 + 16 exceeds b's 60 ms, which nexus allows. In 60 - 16 = 44 ms 3 of a come, too, and
// 44 + 16 = 60.
TEST(Gpulet, SharesWhereACycleAndAllRunsFitIntoEveryPromise) {
  const CycleModel model({"1g.10gb"});
  const auto answer = plan_gpulet(cycle_problem(model, {cycle_service("a", 50, 100ms), cycle_service("b", 20, 60ms)}));
  ASSERT_EQ(slices_of(answer.plan).size(), 1);
  EXPECT_EQ(answer.services[0].groups[0].replica.buckets[0].batch_size, 3);
  EXPECT_EQ(answer.services[1].groups[0].replica.buckets[0].batch_size, 1);
}

// Two services of 1/s at 20 ms: runs of 6 + 6 ms leave a cycle of 8, which is shorter than the runs. Nexus, which asks
// only for a cycle and one's own run, lets them share.
TEST(Gpulet, SharesLessThanNexus) {
  const CycleModel model({"1g.10gb"});
  const Problem problem = cycle_problem(model, {cycle_service("a", 1, 20ms), cycle_service("b", 1, 20ms)});
  EXPECT_EQ(slices_of(plan_gpulet(problem).plan), (Slices{"1g.10gb a:1", "1g.10gb b:1"}));
}

// Nine models of 1,000 MiB fit into a slice of 10 GiB with 8 % free, ten do not.
TEST(Gpulet, KeepsWithinTheMemory) {
  const CycleModel model({"1g.10gb"});
  std::vector<Service> services;
  for (int s = 0; s < 10; ++s) services.push_back(cycle_service(fmt::format("s{}", s), 0.1, 500ms));
  EXPECT_EQ(slices_of(plan_gpulet(cycle_problem(model, services)).plan).size(), 2);
}

TEST(Gpulet, LeavesTimeFreeUntilEveryPromiseHolds) {
  const CycleModel model({"1g.10gb"});
  CountingCertifier certifier(2);
  Problem problem = cycle_problem(model, {cycle_service("a", 1, 100ms), cycle_service("b", 1, 100ms),
                                          cycle_service("c", 1, 100ms), cycle_service("d", 1, 100ms)});
  EXPECT_EQ(slices_of(plan_gpulet(problem).plan).size(), 1);
  problem.options.rule = Rule::certified;
  problem.certifier = &certifier;
  EXPECT_EQ(slices_of(plan_gpulet(problem).plan).size(), 2);
}

}  // namespace
}  // namespace tangram::plan

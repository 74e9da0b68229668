// Nexus' rule on cases that can be computed by hand.

#include <gtest/gtest.h>

#include "base/text.h"
#include "plan/check_plan.h"
#include "plan/planners/cycle_fixture.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;
using Slices = std::vector<std::string>;

PlanAnswer plan_nexus(const Problem& problem) {
  PlanAnswer answer = find_planner("nexus")->make()->plan(problem);
  EXPECT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_EQ(text::join(check_plan(problem, answer.plan), "\n"), "");
  return answer;
}

// A batch of 8 takes 20 ms, half of the Slo: a full slice runs 400/s. 900/s are two full slices and a residue of
// 100/s. The residue gathers 2 in 20 ms and runs them in 8: 28 <= 40. Batches of 4 would take 40 + 12.
TEST(Nexus, SaturatesSlicesAndGivesTheRestACycle) {
  const CycleModel model({"1g.10gb"});
  const auto answer = plan_nexus(cycle_problem(model, {cycle_service("a", 900, 40ms)}));
  EXPECT_EQ(slices_of(answer.plan), (Slices{"1g.10gb a:2", "1g.10gb a:8", "1g.10gb a:8"}));
}

// a: 50/s at 100 ms: 2 gather in 40 ms and run in 8; 4 take 80 + 12 = 92 <= 100; 8 take more. Cycle 80 ms, occupancy
// 12/80. b: 20/s at 60 ms: 1 gathers in 50 ms and runs in 6; 2 take 100. Cycle 50 ms, occupancy 6/50. Together: the
// cycle is 50 ms, in which ceil(2.5) = 3 of a (10 ms) and 1 of b (6 ms) run: 16 <= 50.
TEST(Nexus, MergesIntoTheShorterCycle) {
  const CycleModel model({"1g.10gb"});
  const auto answer = plan_nexus(cycle_problem(model, {cycle_service("a", 50, 100ms), cycle_service("b", 20, 60ms)}));
  EXPECT_EQ(slices_of(answer.plan), (Slices{"1g.10gb a:3 b:1"}));
}

// One request a second at 20 ms: not even one gathers in time, so the cycle is what the run of 6 ms leaves, 14 ms. Two
// such services take 12 of 14 ms; three would take 18.
TEST(Nexus, CountsSeldomRequestsOnceInACycle) {
  const CycleModel model({"1g.10gb"});
  const auto answer = plan_nexus(
      cycle_problem(model, {cycle_service("a", 1, 20ms), cycle_service("b", 1, 20ms), cycle_service("c", 1, 20ms)}));
  EXPECT_EQ(slices_of(answer.plan), (Slices{"1g.10gb a:1 b:1", "1g.10gb c:1"}));
}

// A slice of 10 GiB has 9,421 MiB with 8 % free. Nine models take 9,000 and a run 10 more; ten do not fit. Ten runs of
// 6 ms would fit into the cycle of 494 ms.
TEST(Nexus, KeepsWithinTheMemory) {
  const CycleModel model({"1g.10gb"});
  std::vector<Service> services;
  for (int s = 0; s < 10; ++s) services.push_back(cycle_service(fmt::format("s{}", s), 0.1, 500ms));
  EXPECT_EQ(slices_of(plan_nexus(cycle_problem(model, services)).plan).size(), 2);
  // The same weights count once.
  for (auto& service : services) service.model = "one";
  EXPECT_EQ(slices_of(plan_nexus(cycle_problem(model, services)).plan).size(), 1);
}

TEST(Nexus, LeavesServicesAloneThatMustNotShare) {
  const CycleModel model({"1g.10gb"});
  std::vector<Service> services{cycle_service("a", 1, 100ms), cycle_service("b", 1, 100ms),
                                cycle_service("c", 1, 100ms)};
  services[0].isolation = Isolation::own_slices;
  EXPECT_EQ(slices_of(plan_nexus(cycle_problem(model, services)).plan), (Slices{"1g.10gb a:1", "1g.10gb b:1 c:1"}));
}

// 24 services of 1/s at 20 ms. On 1g, two share a slice (see above): 12 slices, 2 devices. A run takes 6/7 ms on 7g, so
// the cycle is 19.1 ms and all 24 fit: 20.6 ms do not, but 22 runs do. On 4g a run takes 1.5 ms and the cycle is
// 18.5 ms: 12 runs. On 3g: 2 ms, 18 ms, 9 runs; on 2g: 3 ms, 17 ms, 5 runs, so five slices of 2g, of which a device
// holds three. Two slices of 4g need two devices, three of 3g as well. No kind needs one device.
TEST(Nexus, TriesEveryKindOfSlice) {
  const CycleModel model;
  std::vector<Service> services;
  for (int s = 0; s < 24; ++s) services.push_back(cycle_service(fmt::format("s{}", s), 1, 20ms));
  EXPECT_EQ(plan_nexus(cycle_problem(model, services)).devices, 2);
  services.resize(22);
  const auto answer = plan_nexus(cycle_problem(model, services));
  EXPECT_EQ(answer.devices, 1);
}

// The certifier accepts two services on a slice at most. Four services of 1/s at 100 ms would share one slice, each
// taking 6 of 94 ms. With less of the time planned, until two take too much for three: 18 / 94 = 0.19.
TEST(Nexus, LeavesTimeFreeUntilEveryPromiseHolds) {
  const CycleModel model({"1g.10gb"});
  CountingCertifier certifier(2);
  Problem problem = cycle_problem(model, {cycle_service("a", 1, 100ms), cycle_service("b", 1, 100ms),
                                          cycle_service("c", 1, 100ms), cycle_service("d", 1, 100ms)});
  EXPECT_EQ(slices_of(plan_nexus(problem).plan).size(), 1);
  problem.options.rule = Rule::certified;
  problem.certifier = &certifier;
  const auto answer = plan_nexus(problem);
  EXPECT_EQ(slices_of(answer.plan), (Slices{"1g.10gb a:1 b:1", "1g.10gb c:1 d:1"}));
  EXPECT_TRUE(answer.services[0].verdict->holds);
}

}  // namespace
}  // namespace tangram::plan

#include "plan/replan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "plan/check_plan.h"
#include "plan/difference.h"
#include "plan/test_problems.h"

namespace tangram::plan {
namespace {

// A batch takes 4 ms and 6 ms over the compute slices for each sample, times what the name of the model says: "1.5".
class LinearNetworks final : public LatencyModel {
 public:
  std::optional<Prediction> predict(const RunPoint& point) const override {
    const double slices = point.mig_profile[0] - '0';
    const double factor = std::stod(std::string(point.model));
    const Duration run = from_milliseconds(factor * (4 + 6 * static_cast<double>(point.batch) / slices));
    return Prediction{run, run};
  }
};

class ReplanTest : public testing::Test {
 protected:
  void add(std::string name, std::string model, double slo_ms, double rate) {
    Service service;
    service.name = std::move(name);
    service.model = std::move(model);
    service.slo.latency = from_milliseconds(slo_ms);
    service.traffic = PoissonTraffic{rate};
    problem.workload.services.push_back(service);
  }

  void use_fleet(std::vector<std::pair<const char*, double>> devices) {
    problem.latency = &networks;
    problem.options.rule = Rule::half;
    for (const auto& [type, price] : devices) {
      DeviceGroup group;
      group.name = group.type = type;
      group.profiles = ProfileSet::base;
      group.price_per_hour = price;
      problem.fleet.groups.push_back(group);
    }
    if (devices.size() > 1) problem.options.objective = Objective::price;
  }

  void set_rate(std::size_t service, double rate) { problem.workload.services[service].traffic = PoissonTraffic{rate}; }

  PlanAnswer plan() const { return find_planner("elastic")->make()->plan(problem); }

  LinearNetworks networks;
  Problem problem;
};

TEST_F(ReplanTest, LeavesEverythingWhereItIsWhenNothingChanged) {
  use_fleet({{"a100-80gb", 1}});
  for (int i = 0; i < 8; ++i) add("s" + std::to_string(i), "1", 60 + 40 * i, 50 + 90 * i);
  const auto before = plan();
  const auto after = replan(problem, before);
  EXPECT_TRUE(after.changed.empty());
  EXPECT_EQ(after.answer.plan, before.plan);
  EXPECT_EQ(after.replicas_loaded, 0);
  EXPECT_FALSE(after.from_scratch);
}

// On 1g a batch of 4 takes 28 ms, just within 0.9 * 64 / 2 = 28.8 ms: 142 samples/s. 100/s need one slice, 200/s two.
// Of seven slices six are in use, so the second one is there already.
TEST_F(ReplanTest, PutsTheGrowthOfOneServiceOnAFreeSlice) {
  use_fleet({{"a100-80gb", 1}});
  for (int i = 0; i < 6; ++i) add("s" + std::to_string(i), "1", 64, 100);
  const auto before = plan();
  ASSERT_EQ(before.devices, 1);
  set_rate(2, 200);
  const auto after = replan(problem, before);
  EXPECT_EQ(after.changed, std::vector<std::string>{"s2"});
  EXPECT_EQ(after.answer.devices, 1);
  EXPECT_EQ(after.replicas_loaded, 1);
  EXPECT_EQ(after.replicas_moved, 0);
  EXPECT_TRUE(check_plan(problem, after.answer.plan).empty());
}

// The same with all seven slices in use: a second device under a name of its own, and still nothing moves.
TEST_F(ReplanTest, AddsADeviceWhenTheRestIsFull) {
  use_fleet({{"a100-80gb", 1}});
  for (int i = 0; i < 7; ++i) add("s" + std::to_string(i), "1", 64, 100);
  const auto before = plan();
  ASSERT_EQ(before.devices, 1);
  set_rate(0, 200);
  const auto after = replan(problem, before);
  ASSERT_EQ(after.answer.devices, 2);
  EXPECT_EQ(after.answer.plan.devices[0], before.plan.devices[0]);
  EXPECT_NE(after.answer.plan.devices[1].name, before.plan.devices[0].name);
  EXPECT_EQ(after.replicas_moved, 0);
}

// Equal devices at two prices, the dear ones first in the fleet. What runs is on cheap ones: it stays there as they are
// cut, and a further device is a cheap one.
TEST_F(ReplanTest, KnowsDevicesOfOneTypeByTheirPrices) {
  use_fleet({{"a100-80gb", 10}, {"a100-80gb", 2}});
  problem.fleet.groups[0].name = "dear";
  problem.fleet.groups[1].name = "cheap";
  for (int i = 0; i < 7; ++i) add("s" + std::to_string(i), "1", 64, 100);
  const auto before = plan();
  ASSERT_EQ(before.devices, 1);
  ASSERT_EQ(before.plan.devices[0].name, "cheap-0");
  set_rate(0, 200);
  const auto after = replan(problem, before);
  EXPECT_FALSE(after.from_scratch);
  ASSERT_EQ(after.answer.devices, 2);
  EXPECT_EQ(after.answer.plan.devices[0], before.plan.devices[0]);
  EXPECT_EQ(after.answer.plan.devices[1].name, "cheap-1");
  EXPECT_EQ(after.answer.price, 4);
  EXPECT_EQ(after.devices_recut, 0);
  EXPECT_EQ(after.replicas_moved, 0);
}

TEST_F(ReplanTest, GivesADeviceBackWhenAServiceShrinks) {
  use_fleet({{"a100-80gb", 1}});
  for (int i = 0; i < 7; ++i) add("s" + std::to_string(i), "1", 64, i == 0 ? 1100 : 100);
  const auto before = plan();
  set_rate(0, 100);
  const auto after = replan(problem, before);
  EXPECT_GT(before.devices, 1);
  EXPECT_EQ(after.answer.devices, 1);
  EXPECT_TRUE(check_plan(problem, after.answer.plan).empty());
}

TEST_F(ReplanTest, SaysWhyWhenAServiceCanNoLongerBeServed) {
  use_fleet({{"a100-80gb", 1}});
  for (int i = 0; i < 4; ++i) add("s" + std::to_string(i), "1", 64, 100);
  const auto before = plan();
  problem.workload.services[1].slo.latency = from_milliseconds(5);
  const auto after = replan(problem, before);
  EXPECT_EQ(after.answer.status, PlanStatus::infeasible);
  EXPECT_EQ(after.answer.service, "s1");
}

// On one type of device and on three with prices: the plan is right, the bound holds, no more is paid than 2 % of the
// bound above a plan from scratch, and what is counted as loaded is at least what the difference of the plans needs.
TEST_F(ReplanTest, StaysWithinTwoPercentOfAPlanFromScratch) {
  for (std::uint64_t seed = 0; seed < test_seeds(30); ++seed) {
    problem = {};
    problem.budget.tree_services_max = 0;  // Proofs are not what is looked at here.
    Rng rng = Rng(seed).stream("replan");
    if (seed % 2 == 0) {
      use_fleet({{"a100-80gb", 1}});
    } else {
      use_fleet({{"a100-80gb", 3.67}, {"a30", 1.13}, {"h100-80gb", 6.98}});
    }
    for (int i = 0; i < 20; ++i) {
      add("s" + std::to_string(i), i % 3 == 0 ? "0.5" : "1.5", rng.uniform(60, 300), rng.uniform(1, 900));
    }
    const auto before = plan();
    ASSERT_EQ(before.status, PlanStatus::planned);
    set_rate(rng.below(20), rng.uniform(1, 900));
    const auto after = replan(problem, before);
    const auto scratch = plan();
    ASSERT_EQ(after.answer.status, PlanStatus::planned) << seed;
    EXPECT_EQ(check_plan(problem, after.answer.plan), std::vector<std::string>{}) << seed;
    EXPECT_LE(after.answer.bound, scratch.price + 1e-6) << seed;
    EXPECT_LE(after.answer.price, after.scratch_price + 0.02 * after.answer.bound + 1e-6) << seed;
    // By name and place, since devices keep theirs; a retuned replica is not loaded anew.
    const auto difference = diff(before.plan, after.answer.plan, {.rename = false, .move = false});
    ASSERT_TRUE(difference.ok()) << seed;
    EXPECT_LE(difference->counts.replicas_loaded, after.replicas_loaded) << seed;
    if (HasFailure()) return;
  }
}

// The plan of one problem, as a file has it, is the running plan of the same problem: nothing moves. With one more
// service, the slices of the others stay.
TEST(Replan, StartsFromAPlanWithoutItsAnswer) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 3000), planned_service("b", 900)});
  const PlanAnswer first = plan_by("elastic", problem);
  const Replanned same = replan(problem, as_running(problem, first.plan));
  EXPECT_FALSE(same.from_scratch);
  EXPECT_EQ(same.replicas_loaded, 0);
  EXPECT_EQ(same.answer.price, first.price);
  problem.workload.services.push_back(planned_service("c", 100));
  const Replanned more = replan(problem, as_running(problem, first.plan));
  ASSERT_EQ(more.answer.status, PlanStatus::planned);
  EXPECT_EQ(more.replicas_moved, 0);
  EXPECT_EQ(problems_of(problem, more.answer), "");
}

}  // namespace
}  // namespace tangram::plan

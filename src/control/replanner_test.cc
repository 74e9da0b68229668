#include "control/replanner.h"

#include <gtest/gtest.h>

#include "control/test_services.h"

namespace tangram::control {
namespace {

std::vector<ServiceDemand> demand_at(double per_s) { return {{per_s, {{1, 1}}}}; }

// From nothing: every replica is loaded, and nothing is cut anew that was in use.
TEST(Replanner, MakesAFirstPlanFromNothing) {
  const TestServices world(6);
  Replanner replanner(world.problem());
  const auto first = replanner.plan(demand_at(4), {false});
  ASSERT_TRUE(first && *first);
  EXPECT_TRUE((*first)->step.from_scratch);
  EXPECT_EQ((*first)->step.devices, 1);
  EXPECT_GT((*first)->step.replicas_loaded, 0);
  EXPECT_EQ((*first)->step.devices_recut, 0);
  EXPECT_EQ((*first)->deployment.services.size(), 1U);
}

// The same demand again is the same plan: nothing is loaded.
TEST(Replanner, ChangesNothingForTheSameDemand) {
  const TestServices world(6);
  Replanner replanner(world.problem());
  const auto first = replanner.plan(demand_at(4), {false});
  const auto second = replanner.plan(demand_at(4), {false});
  ASSERT_TRUE(second && *second);
  EXPECT_EQ((*second)->step.replicas_loaded, 0);
  EXPECT_EQ((*second)->step.devices, (*first)->step.devices);
}

// 36/s need more than one GPU, and one GPU is all there is: the answer is nothing with a reason, and the plan for 4/s
// is still the running one, so that planning for 4/s again loads nothing.
TEST(Replanner, KeepsTheRunningPlanWhenTheFleetIsTooSmall) {
  const TestServices world(1);
  Replanner replanner(world.problem());
  ASSERT_TRUE(replanner.plan(demand_at(4), {false}));
  const auto more = replanner.plan(demand_at(36), {false});
  ASSERT_TRUE(more);
  EXPECT_FALSE(more->has_value());
  EXPECT_NE(replanner.reason(), "");
  const auto again = replanner.plan(demand_at(4), {false});
  ASSERT_TRUE(again && *again);
  EXPECT_EQ((*again)->step.replicas_loaded, 0);
}

// Two services on the quarters of two cores, 40 ms a request on each. Their rates change places: every plan takes as
// few cores as one from nothing, although both services could keep what they had on the way, which fills the host.
TEST(Replanner, GivesCoresBackThatARunningPlanWouldKeep) {
  class OnAQuarter final : public LatencyModel {
   public:
    std::optional<Prediction> predict(const RunPoint& point) const override {
      if (point.mig_profile != "0.25c") return std::nullopt;
      const Duration time = from_seconds(0.040 * static_cast<double>(point.batch));
      return Prediction{.mean = time, .p99 = time};
    }
  };
  const OnAQuarter latency;
  plan::Problem problem;
  problem.latency = &latency;
  problem.options.rule = plan::Rule::half;
  DeviceGroup host;
  host.name = "host";
  host.type = "cpu";
  host.count = 1;
  host.host = CpuHost{2, 8, true};
  problem.fleet.groups.push_back(host);
  for (const char* name : {"a", "b"}) {
    Service service;
    service.name = service.model = name;
    service.slo = {std::chrono::seconds(1), 99};
    service.traffic = PoissonTraffic{4};
    problem.workload.services.push_back(std::move(service));
  }
  Replanner following(problem);
  for (const double rate : {75.0, 60.0, 50.0, 40.0, 30.0, 15.0, 5.0}) {
    const std::vector<ServiceDemand> demand{{rate, {{1, 1}}}, {80 - rate, {{1, 1}}}};
    const auto followed = following.plan(demand, {false, false});
    Replanner fresh(problem);
    const auto anew = fresh.plan(demand, {false, false});
    ASSERT_TRUE(followed && *followed && anew && *anew) << rate << following.reason();
    EXPECT_EQ((*followed)->step.compute_slices, (*anew)->step.compute_slices) << rate;
  }
}

// Bursts have 3.57 times the mean, so the plan for a mean of 12/s is about the plan for 43/s of even traffic.
TEST(Replanner, PlansForTheBurstsOfTheServicesFile) {
  const TestServices even(6);
  const TestServices bursty(6, BurstTraffic{100, 5, 10, 90});
  Replanner calm(even.problem());
  Replanner bursts(bursty.problem());
  const auto for_calm = calm.plan(demand_at(12), {false});
  const auto for_bursts = bursts.plan(demand_at(12), {false});
  ASSERT_TRUE(for_calm && *for_calm && for_bursts && *for_bursts);
  EXPECT_GE((*for_bursts)->step.compute_slices, 2 * (*for_calm)->step.compute_slices);
}

// One device: `a` on a slice of one profile, `b` on a slice of another.
Plan plan_of(const std::string& profile_a, const std::string& profile_b, int devices = 1) {
  const Geometry& geometry = *find_geometry("a100-80gb");
  const auto profile = [&](const std::string& name) {
    return static_cast<std::uint16_t>(*find_profile(geometry, name));
  };
  Plan plan;
  for (int d = 0; d < devices; ++d) {
    PlannedDevice device{"rack-" + std::to_string(d), "a100-80gb", geometry, {}};
    device.slices.push_back({{profile(profile_a), 0}, {Replica{"a", {{1, 1}}, 1}}});
    if (d == 0) device.slices.push_back({{profile(profile_b), 4}, {Replica{"b", {{1, 1}}, 1}}});
    plan.devices.push_back(std::move(device));
  }
  return plan;
}

// The slice of b stays and the only slice of a grows in place: a would not be served meanwhile. With a further slice of
// a on another device, which stays, it would.
TEST(Replanner, ReplacesADeviceOnWhichAServiceWouldHaveNoSlice) {
  const auto alone =
      plan::diff(plan_of("1g.10gb", "1g.10gb"), plan_of("2g.20gb", "1g.10gb"), {.rename = false, .move = false});
  ASSERT_TRUE(alone);
  EXPECT_TRUE(is_better_replaced(*alone, alone->devices[0]));
  Plan after = plan_of("2g.20gb", "1g.10gb", 2);
  after.devices[1] = plan_of("1g.10gb", "1g.10gb", 2).devices[1];
  const auto two = plan::diff(plan_of("1g.10gb", "1g.10gb", 2), after, {.rename = false, .move = false});
  ASSERT_TRUE(two);
  EXPECT_FALSE(is_better_replaced(*two, two->devices[0]));
  EXPECT_FALSE(is_better_replaced(*two, two->devices[1]));
}

// The slice of b stays, the only slice of a grows in place, and no device is free. The second device has c at 0, which
// stays, and room from 2 on: a gets its new slice there, before the old one goes. Where c changes as well, the second
// device does not only gain slices, and a stays where the plan has it.
TEST(Replanner, PlacesTheOnlySliceOfAServiceElsewhereBeforeItGoes) {
  const Geometry& geometry = *find_geometry("a100-80gb");
  const auto small = static_cast<std::uint16_t>(*find_profile(geometry, "1g.10gb"));
  const auto large = static_cast<std::uint16_t>(*find_profile(geometry, "2g.20gb"));
  DeviceGroup rack;
  rack.name = "rack";
  rack.type = "a100-80gb";
  rack.count = 2;
  const Fleet fleet{{rack}};
  const auto with_c = [&](Plan plan, std::int32_t batch) {
    plan.devices.push_back({"rack-1", "a100-80gb", geometry, {{{small, 0}, {Replica{"c", {{1, batch}}, 1}}}}});
    return plan;
  };
  const Plan before = with_c(plan_of("1g.10gb", "1g.10gb"), 1);
  for (const std::int32_t batch : {1, 2}) {
    const Plan after = with_c(plan_of("2g.20gb", "1g.10gb"), batch);
    const auto difference = plan::diff(before, after, {.rename = false, .move = false});
    ASSERT_TRUE(difference);
    Plan target = difference->target;
    place_elsewhere(*difference, fleet, "rack-0", target);
    if (batch == 2) {
      EXPECT_TRUE(plan::same_content(target, after));
      continue;
    }
    ASSERT_EQ(target.devices[0].slices.size(), 1U);
    EXPECT_EQ(target.devices[0].slices[0].replicas[0].service, "b");
    ASSERT_EQ(target.devices[1].slices.size(), 2U);
    EXPECT_EQ(target.devices[1].slices[1].slice, (Slice{large, 2}));
    EXPECT_EQ(target.devices[1].slices[1].replicas[0].service, "a");
  }
}

}  // namespace
}  // namespace tangram::control

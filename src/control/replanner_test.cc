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

}  // namespace
}  // namespace tangram::control

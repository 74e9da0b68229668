#include "lab/replan_comparison.h"

#include <gtest/gtest.h>

#include "learn/models/analytic.h"

namespace tangram::lab {
namespace {

using namespace std::chrono_literals;

// A curve of 30 s steps 2, 6, 4, 4: the minutes have the means 4 and 4. Its second half minute and its third make no
// minute of the span that begins at 30 s: there the mean is (6 + 4) / 2 = 5.
TEST(BusiestRate, IsThatOfTheBusiestMinute) {
  Service service;
  service.traffic = CurveTraffic{"", 30, 1, {2, 6, 4, 4}};
  EXPECT_DOUBLE_EQ(busiest_rate_per_s(service, 0, 120), 4);
  EXPECT_DOUBLE_EQ(busiest_rate_per_s(service, 30, 90), 5);
}

// Seconds of a fast day: the curve of half minutes is one of half seconds, and its busiest minute one of a second.
TEST(BusiestRate, TakesAShorterMinuteInAFasterDay) {
  Service service;
  service.traffic = CurveTraffic{"", 0.5, 1, {2, 6, 4, 4}};
  EXPECT_DOUBLE_EQ(busiest_rate_per_s(service, 0, 2, 1), 4);
  EXPECT_DOUBLE_EQ(busiest_rate_per_s(service, 0.5, 1.5, 1), 5);
}

// Two hours of one service whose rate is 4/s but for the second half hour, when it is 36/s. A compute slice runs a
// request in 250 ms, so the peak needs more than one GPU and the rest of the time less than one.
Scenario two_hours() {
  Scenario scenario;
  scenario.name = "two-hours";
  Service service;
  service.name = "a";
  service.model = "net";
  service.slo = {2s, 95};
  service.traffic = CurveTraffic{"", 1800, 1, {4, 36, 4, 4}};
  scenario.workload.services.push_back(service);
  learn::AnalyticRun run;
  run.model = "net";
  run.launch_ms = 10;
  run.sample_ms = 250;
  scenario.latency = std::make_shared<learn::AnalyticModel>(std::vector{run});
  scenario.config.duration = 2h;
  return scenario;
}

Fleet fleet_of(int devices) {
  Fleet fleet;
  DeviceGroup group;
  group.name = "rack";
  group.type = "a100-80gb";
  group.count = devices;
  fleet.groups.push_back(group);
  return fleet;
}

ReplanComparisonOptions quick() {
  ReplanComparisonOptions options;
  options.rule = plan::Rule::half;
  return options;
}

// Twenty minutes of bursts that are five times as high as the calm between them. Planned at their mean rate, the fleet
// loses most of each burst, which has more than a third of the requests.
TEST(Replan, KeepsPromisesWhenRequestsComeInBursts) {
  Scenario scenario = two_hours();
  scenario.workload.services[0].traffic = BurstTraffic{8, 5, 10, 90};
  scenario.config.duration = 20min;
  const auto comparison = compare_replanning(scenario, fleet_of(8), quick());
  ASSERT_TRUE(comparison) << comparison.error().message;
  for (const auto& run : comparison->runs) EXPECT_GE(run.attainment(), 0.95) << run.name;
}

// The static plan holds its GPUs for two hours. The others hold them for the half hour that needs them and give them
// back, the oracle at once and the controller after three quiet windows of five minutes. Nobody loses a request, and
// the oracle, which is ready in time, keeps the promise.
TEST(Replan, UsesFewerGpuHoursThanThePeakPlanAndLosesNothing) {
  const Scenario scenario = two_hours();
  const auto comparison = compare_replanning(scenario, fleet_of(6), quick());
  ASSERT_TRUE(comparison) << comparison.error().message;
  ASSERT_EQ(comparison->runs.size(), 3u);
  const auto& replan = comparison->runs[0];
  const auto& fixed = comparison->runs[1];
  const auto& oracle = comparison->runs[2];
  const auto hours = [](const ReplanRun& run) { return run.gpu_hours.at("a100-80gb"); };
  EXPECT_NEAR(hours(fixed), 2.0 * fixed.devices_max, 1e-9);
  EXPECT_GE(fixed.devices_max, 2);
  EXPECT_LT(hours(replan), 0.9 * hours(fixed));
  EXPECT_LE(hours(oracle), hours(replan) + 1e-9);
  EXPECT_GE(oracle.attainment(), 0.95);
  EXPECT_EQ(replan.result.requests, fixed.result.requests);
  for (const auto& run : comparison->runs) {
    EXPECT_EQ(run.unresolved, 0u) << run.name;
    EXPECT_EQ(run.result.metrics.total().arrived, run.result.requests) << run.name;
  }
  EXPECT_EQ(replan.steps.back().devices, replan.steps.front().devices);
  EXPECT_GT(replan.steps.size(), 2u);
}

// Equal devices at two prices, the dear ones first in the file: at the lowest price all hours are those of cheap ones,
// also while roles move from one device to another.
TEST(Replan, AddsUpWhatItCostsAndTakesTheCheapDevices) {
  Fleet fleet = fleet_of(4);
  fleet.groups[0].price_per_hour = 10;
  fleet.groups.push_back(fleet.groups[0]);
  fleet.groups[1].name = "cheap";
  fleet.groups[1].price_per_hour = 2;
  auto options = quick();
  options.objective = plan::Objective::price;
  const auto comparison = compare_replanning(two_hours(), fleet, options);
  ASSERT_TRUE(comparison) << comparison.error().message;
  for (const auto& run : comparison->runs) {
    const double hours = run.gpu_hours.at("a100-80gb");
    EXPECT_GT(hours, 0) << run.name;
    EXPECT_NEAR(run.cost, 2 * hours, 1e-9) << run.name;
  }
}

// Sizes double in the second hour while the rate stays. Half of a log-normal crossing classes is more than 0.15, so the
// controller names the drift, and at the end it plans for the mean that arrives then.
TEST(Replan, NoticesThatInputsGrow) {
  Scenario scenario = two_hours();
  scenario.workload.services[0].traffic = PoissonTraffic{6};
  scenario.workload.services[0].input_size = LogNormalSize{50, 0.4, 4, 400};
  scenario.workload.services[0].size_drift = SizeDrift{LogNormalSize{150, 0.4, 4, 400}, 3600, 3600};
  learn::AnalyticRun run;
  run.model = "net";
  run.launch_ms = 10;
  run.sample_ms = 50;
  run.size_reference = 50;
  run.size_exponent = 1;
  scenario.latency = std::make_shared<learn::AnalyticModel>(std::vector{run});
  const auto comparison = compare_replanning(scenario, fleet_of(6), quick());
  ASSERT_TRUE(comparison) << comparison.error().message;
  bool noticed = false;
  for (const auto& step : comparison->runs[0].steps) {
    for (const auto& reason : step.reasons) {
      const bool sizes = reason.find("sizes moved") != std::string::npos;
      noticed = noticed || sizes;
      if (sizes) {
        EXPECT_GT(to_seconds(step.at), 3600) << reason;
      }
    }
  }
  EXPECT_TRUE(noticed);
}

TEST(Replan, SaysWhatItCannotPlanFor) {
  Scenario scenario = two_hours();
  const auto small = compare_replanning(scenario, fleet_of(1), quick());
  ASSERT_FALSE(small);
  EXPECT_NE(small.error().message.find("fleet cannot serve"), std::string::npos) << small.error().message;
  scenario.workload.services[0].traffic = ClosedLoopTraffic{};
  const auto loop = compare_replanning(scenario, fleet_of(1), quick());
  ASSERT_FALSE(loop);
  EXPECT_NE(loop.error().message.find("closed loop"), std::string::npos);
  scenario.config.duration = Duration::max();
  EXPECT_FALSE(compare_replanning(scenario, fleet_of(1), quick()));
}

TEST(Replan, GivesTheSameAnswerTwice) {
  const Scenario scenario = two_hours();
  const auto a = compare_replanning(scenario, fleet_of(6), quick());
  const auto b = compare_replanning(scenario, fleet_of(6), quick());
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->runs[0].result.digest, b->runs[0].result.digest);
}

}  // namespace
}  // namespace tangram::lab

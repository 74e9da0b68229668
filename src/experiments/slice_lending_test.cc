#include "experiments/slice_lending.h"

#include <gtest/gtest.h>

#include <string>

#include "core/geometry.h"
#include "learn/models/analytic.h"

namespace tangram::experiments {
namespace {

PlannedDevice device_with(const char* layout) {
  PlannedDevice device;
  device.type = "a100-80gb";
  device.geometry = *find_geometry("a100-80gb");
  for (const auto& slice : parse_layout(device.geometry, layout).layout.slices) {
    device.slices.push_back({slice, {Replica{"service", {{1, 1}}, 1}}});
  }
  return device;
}

// The rate is at half of the peak or below for 4.7 hours before and after midnight, so from hour 20 to hour 3 whole
// hours are: eight. In them one device is idle, and the other has room for a 3g.
TEST(Slices, OfAPlanForEveryHourAreWhatThatPlanLeaves) {
  const auto plan_at = [](double rates) -> std::optional<Plan> {
    if (rates <= 0.5) return Plan{{device_with("4g.40gb@0")}};
    return Plan{{device_with("7g.80gb@0"), device_with("7g.80gb@0")}};
  };
  const std::map<int, double> speeds{{1, 0.1}, {2, 0.15}, {3, 0.4}, {7, 1}};
  const auto day = replan_for_a_day(plan_at, speeds, {});
  ASSERT_TRUE(day);
  EXPECT_DOUBLE_EQ(day->devices, 2);
  EXPECT_DOUBLE_EQ(day->whole_h, 8);
  EXPECT_NEAR(day->parts_h, 8 * 0.4, 1e-9);
}

// Two services with two slices 3g each, one on each of two devices, the rest of which is uncut.
struct TwoDevices {
  Plan plan;
  Workload workload;
  learn::AnalyticModel model{
      {{.model = "net", .device = std::nullopt, .launch_ms = 2, .sample_ms = 30, .slice_exponent = 1}}};

  TwoDevices() {
    for (int d = 0; d < 2; ++d) {
      PlannedDevice device = device_with("3g.40gb@0 + 3g.40gb@4");
      device.name = "a100-80gb-" + std::to_string(d);
      for (int s = 0; s < 2; ++s) {
        device.slices[static_cast<std::size_t>(s)].replicas = {{"service-" + std::to_string(s), {{1, 8}}, 1}};
      }
      plan.devices.push_back(device);
    }
    for (int s = 0; s < 2; ++s) {
      Service service;
      service.name = "service-" + std::to_string(s);
      service.model = "net";
      service.slo = {std::chrono::milliseconds(200), 99};
      service.traffic = PoissonTraffic{100};
      workload.services.push_back(service);
    }
  }
};

// A sample takes 10 ms on a 3g: 100 requests/s fill one slice and need two, 40 a second need one. So for a part of the
// day each service gives up its second slice, and because both keep the one on the same device, whole GPUs can be lent
// as well. Slices train at 0.5 of a GPU, two of them as fast as a whole one.
TEST(Slices, AreLentForAtLeastAsLongAsWholeGpusWithEveryPromiseKept) {
  const TwoDevices two;
  const std::map<int, double> speeds{{1, 0.1}, {3, 0.5}, {7, 1}};
  LendingDay day;
  day.hour_s = 10;
  const auto whole = lend_for_a_day(two.plan, two.workload, two.model, speeds, lab::LendMode::whole_gpu, day);
  const auto slices = lend_for_a_day(two.plan, two.workload, two.model, speeds, lab::LendMode::slices, day);
  EXPECT_GT(whole.lent_training_h, 1);
  EXPECT_GE(slices.lent_gpu_h, whole.lent_gpu_h * 6 / 7 - 1);
  EXPECT_LT(slices.lent_gpu_h, 24);  // One of two GPUs stays with inference.
  EXPECT_GE(whole.slo_margin, 0);
  EXPECT_GE(slices.slo_margin, 0);
}

// The same with the second slices on other devices: neither GPU is ever idle whole.
TEST(Slices, AreLentWhereNoGpuIsIdleWhole) {
  TwoDevices two;
  two.plan.devices[0].slices[1].replicas[0].service = "service-0";
  two.plan.devices[1].slices[0].replicas[0].service = "service-1";
  const std::map<int, double> speeds{{1, 0.1}, {3, 0.5}, {7, 1}};
  LendingDay day;
  day.hour_s = 10;
  const auto whole = lend_for_a_day(two.plan, two.workload, two.model, speeds, lab::LendMode::whole_gpu, day);
  const auto slices = lend_for_a_day(two.plan, two.workload, two.model, speeds, lab::LendMode::slices, day);
  EXPECT_EQ(whole.leases, 0);
  EXPECT_EQ(whole.training_h(), 0);
  EXPECT_GT(slices.lent_training_h, 4);
  EXPECT_GE(slices.slo_margin, 0);
}

// Beside a 4g that is needed all day the plan leaves four units: half of the device by memory. A 3g there trains at 0.4
// for 24 hours. None of that is lent, and lending whole GPUs cannot use it.
TEST(Slices, OfSpaceThatIsNeverPlannedAreCountedApartFromLentOnes) {
  TwoDevices two;
  two.plan.devices = {device_with("4g.40gb@0")};
  two.plan.devices[0].slices[0].replicas = {{"service-0", {{1, 8}}, 1}};
  two.workload.services.resize(1);
  const std::map<int, double> speeds{{1, 0.1}, {3, 0.4}, {7, 1}};
  LendingDay day;
  day.hour_s = 10;
  const auto slices = lend_for_a_day(two.plan, two.workload, two.model, speeds, lab::LendMode::slices, day);
  EXPECT_EQ(slices.leases, 0U);
  EXPECT_DOUBLE_EQ(slices.lent_gpu_h, 0);
  EXPECT_DOUBLE_EQ(slices.lent_training_h, 0);
  EXPECT_DOUBLE_EQ(slices.unplanned_gpu_h, 12);
  EXPECT_NEAR(slices.unplanned_training_h, 24 * 0.4, 1e-9);
  const auto whole = lend_for_a_day(two.plan, two.workload, two.model, speeds, lab::LendMode::whole_gpu, day);
  EXPECT_DOUBLE_EQ(whole.training_h(), 0);
  EXPECT_DOUBLE_EQ(whole.unplanned_gpu_h, 0);
}

}  // namespace
}  // namespace tangram::experiments

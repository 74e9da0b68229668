#include "lab/training_slices.h"

#include <gtest/gtest.h>

#include "core/geometry.h"

namespace tangram::lab {
namespace {

Measurement run_of(const char* model, const char* profile, double throughput) {
  Measurement m;
  m.model = model;
  m.mig_profile = profile;
  m.latency_ms = 1;
  m.throughput_per_s = throughput;
  return m;
}

// Model a: 30 of 100 on 3g; its second batch is slower and does not count. Model b does not fit on 3g: (0.3 + 0) / 2.
TEST(TrainingSlices, CountAModelThatDoesNotFitAsStandingStill) {
  const auto speeds = training_speeds({run_of("a", "3g.20gb", 30), run_of("a", "3g.20gb", 20),
                                       run_of("a", "7g.40gb", 100), run_of("b", "7g.40gb", 10)});
  EXPECT_DOUBLE_EQ(speeds.at(3), 0.15);
  EXPECT_DOUBLE_EQ(speeds.at(7), 1);
}

// Without a whole GPU there is nothing of which 4g is a share: it is not taken for one, but on a board of four.
TEST(TrainingSlices, HaveNoSpeedWhereNoModelWasTimedOnAWholeGpu) {
  Measurements runs{run_of("a", "4g.20gb", 30), run_of("a", "2g.10gb", 15)};
  EXPECT_TRUE(training_speeds(runs).empty());
  for (auto& run : runs) run.device = "a30";
  EXPECT_DOUBLE_EQ(training_speeds(runs).at(2), 0.5);
}

PlannedDevice cut_device(const char* layout) {
  PlannedDevice device;
  device.type = "a100-80gb";
  device.geometry = *find_geometry("a100-80gb");
  for (const auto& slice : parse_layout(device.geometry, layout).layout.slices) {
    device.slices.push_back({slice, {Replica{"service", {{1, 1}}, 1}}});
  }
  return device;
}

// Beside 4g@0 lie four units: a 3g there is worth 0.4, more than the three 1g that would fit, 0.3.
TEST(TrainingSlices, AreFilledWithWhatTrainsFastest) {
  const auto device = cut_device("4g.40gb@0");
  const std::map<int, double> speeds{{1, 0.1}, {2, 0.15}, {3, 0.4}, {7, 1}};
  EXPECT_EQ(to_string(device.geometry, leftover_slices(device, speeds)), "3g.40gb@4");
}

// A GPU of its own is cut for training where that pays: 3g + 2g + 2g train at 0.5 + 2 * 0.35 = 1.2, three 2g and a 1g
// at 1.19, 4g + 3g at 1.1, seven 1g at 0.98. With slow slices it stays uncut.
TEST(TrainingSlices, OfADedicatedGpuAreItsFastestCut) {
  const Geometry& geometry = *find_geometry("a100-80gb");
  EXPECT_NEAR(best_cut_speed(geometry, {{1, 0.14}, {2, 0.35}, {3, 0.5}, {4, 0.6}, {7, 1}}), 1.2, 1e-12);
  EXPECT_NEAR(best_cut_speed(geometry, {{1, 0.1}, {2, 0.2}, {3, 0.4}, {7, 1}}), 1, 1e-12);
}

TEST(TrainingSlices, OfAFullDeviceAreNone) {
  const auto device = cut_device("7g.80gb@0");
  EXPECT_TRUE(leftover_slices(device, {{1, 0.1}}).slices.empty());
}

}  // namespace
}  // namespace tangram::lab

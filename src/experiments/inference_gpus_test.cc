#include "experiments/inference_gpus.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tangram::experiments {
namespace {

constexpr double kCold_s = 8;

InferenceGpus gpus_with(train::KeepWarmKind kind, std::optional<PackedWarm> packed = std::nullopt) {
  InferenceGpus::Options options;
  options.keep_warm.kind = kind;
  options.packed = packed;
  return {options, {kCold_s, kCold_s}};
}

// Submitted at 10 s, cold until 18 s, runs until 23 s, guarded for the 30 s of the timer and the second that it is
// late.
TEST(InferenceGpus, GuardAReplicaBehindItsRequestAndLetItSleepThen) {
  auto gpus = gpus_with(train::KeepWarmKind::timer);
  gpus.on_arrival(0, 10);
  EXPECT_EQ(gpus.run_cold({.application = 0, .now_s = 10, .submit_s = 10, .duration_s = 5}, 3), kCold_s);
  EXPECT_EQ(gpus.next_change_s(), 23);
  EXPECT_EQ(gpus.settle(22), 0U);
  EXPECT_EQ(gpus.settle(23), 1U);
  EXPECT_TRUE(gpus.has_guarded(0));
  EXPECT_EQ(gpus.held(4), (std::vector<int>{0, 0, 0, 1}));
  EXPECT_EQ(gpus.next_change_s(), 23 + 30 + 1);
  EXPECT_EQ(gpus.settle(54), 0U);  // A guard ends, no request.
  EXPECT_TRUE(gpus.any_asleep());
  EXPECT_EQ(gpus.held(4), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_TRUE(std::isinf(gpus.next_change_s()));
}

// It came at 30 s and starts at 31 s.
TEST(InferenceGpus, StartARequestOnAWarmReplicaOfItsOwnApplicationOnly) {
  auto gpus = gpus_with(train::KeepWarmKind::timer);
  gpus.run_cold({.application = 0, .now_s = 10, .submit_s = 10, .duration_s = 5}, 0);
  gpus.settle(23);
  EXPECT_FALSE(gpus.run_warm({.application = 1, .now_s = 31, .submit_s = 30, .duration_s = 5}));
  EXPECT_EQ(gpus.run_warm({.application = 0, .now_s = 31, .submit_s = 30, .duration_s = 5}), 1);
  EXPECT_EQ(gpus.counts().running, 1);
}

TEST(InferenceGpus, AreFreeBehindTheRequestWhereNothingIsKeptWarm) {
  auto gpus = gpus_with(train::KeepWarmKind::none);
  gpus.run_cold({.application = 0, .now_s = 0, .submit_s = 0, .duration_s = 5}, 0);
  EXPECT_EQ(gpus.settle(13), 1U);
  EXPECT_EQ(gpus.count(), 0U);
}

// Node 0 has two GPUs, one sleeping replica and two GPUs of training: the replica leaves. The one of node 1 may stay.
TEST(InferenceGpus, GiveUpSleepingReplicasWhereTrainingTookTheirGpu) {
  auto gpus = gpus_with(train::KeepWarmKind::timer);
  for (const int node : {0, 1}) gpus.run_cold({.application = 0, .now_s = 0, .submit_s = 0, .duration_s = 1}, node);
  gpus.settle(9);
  gpus.settle(40);
  EXPECT_EQ(gpus.counts().asleep, 2);
  gpus.close_displaced({2, 1}, 2);
  std::vector<int> used{0, 0};
  gpus.add_to_nodes(used);
  EXPECT_EQ(used, (std::vector<int>{0, 1}));
  EXPECT_FALSE(gpus.close_asleep_on(0));
  EXPECT_TRUE(gpus.close_asleep_on(1));
}

// Two slots on a shelf: the second application fills it. From a shelf a start takes 1.5 s instead of 8.
TEST(InferenceGpus, StartAnApplicationFromItsShelf) {
  auto gpus = gpus_with(train::KeepWarmKind::demand, PackedWarm{.slots = 2, .start_s = 1.5, .margin = 0});
  EXPECT_TRUE(gpus.shelves_full());
  EXPECT_EQ(gpus.run_packed({.application = 0, .now_s = 0, .submit_s = 0, .duration_s = 2}, std::nullopt, 0), kCold_s);
  gpus.add_shelf(1);
  gpus.put_on_shelf(0);
  EXPECT_FALSE(gpus.shelves_full());
  EXPECT_EQ(gpus.run_packed({.application = 0, .now_s = 1, .submit_s = 1, .duration_s = 2}, std::nullopt, 0), 1.5);
  gpus.put_on_shelf(1);
  EXPECT_TRUE(gpus.shelves_full());
  EXPECT_EQ(gpus.counts().running, 2);
  EXPECT_EQ(gpus.counts().guarded, 1);  // The shelf.
}

TEST(InferenceGpus, GiveUpTheGuardedReplicaThatIsAskedForLeast) {
  auto gpus = gpus_with(train::KeepWarmKind::timer);
  EXPECT_FALSE(gpus.close_guarded(0));
  for (int i = 0; i < 5; ++i) gpus.on_arrival(0, i);
  gpus.on_arrival(1, 0);
  gpus.run_cold({.application = 0, .now_s = 5, .submit_s = 5, .duration_s = 1}, 2);
  gpus.run_cold({.application = 1, .now_s = 5, .submit_s = 5, .duration_s = 1}, 3);
  gpus.settle(14);
  EXPECT_EQ(gpus.close_guarded(14), 3);
  EXPECT_TRUE(gpus.has_guarded(0));
}

}  // namespace
}  // namespace tangram::experiments

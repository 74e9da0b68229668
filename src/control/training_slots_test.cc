#include "control/training_slots.h"

#include <gtest/gtest.h>

namespace tangram::control {
namespace {

// Three devices on two nodes. Device 0 has two slices that can be lent and one that is uncut, device 1 has one slice,
// and inference does not use device 2.
TrainingSlots three_devices(bool lends_slices = true) {
  return {{.devices = 3, .gpus_per_node = 2, .jobs = 4, .lends_slices = lends_slices},
          {{0, 0, 0.4, 0.5}, {1, 0, 0.5, 0.375}, {2, 1, 1, 1}, {std::nullopt, 0, 0.1, 0.125}}};
}

TEST(TrainingSlots, TakesADeviceThatInferenceDoesNotUseForTrainingsOwn) {
  const TrainingSlots slots = three_devices();
  EXPECT_EQ(slots.nodes(), 2);
  EXPECT_EQ(slots.whole_gpus(), (std::vector<int>{0, 1}));
  EXPECT_TRUE(slots.devices()[2].whole);
  EXPECT_EQ(slots.devices()[0].lendable, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(slots.devices()[0].uncut, (std::vector<std::size_t>{3}));
}

// At first only the uncut slot can be used. A lent one can, too, until its device is taken whole.
TEST(TrainingSlots, OpensSlotsThatAreLentFastestFirst) {
  TrainingSlots slots = three_devices();
  EXPECT_EQ(slots.open_slots(), (std::vector<std::size_t>{3}));
  slots.begin_lease(0, 10);
  EXPECT_FALSE(slots.all_lent(0));
  slots.begin_lease(1, 10);
  EXPECT_TRUE(slots.all_lent(0));
  EXPECT_EQ(slots.open_slots(), (std::vector<std::size_t>{1, 0, 3}));
  slots.set_whole(0, true);
  EXPECT_TRUE(slots.open_slots().empty());
  EXPECT_EQ(slots.whole_gpus(), (std::vector<int>{1, 1}));
}

TEST(TrainingSlots, HasNoUsableSlotWhereOnlyWholeGpusAreLent) {
  TrainingSlots slots = three_devices(false);
  slots.begin_lease(0, 10);
  EXPECT_TRUE(slots.open_slots().empty());
}

// On a slot of half a GPU a job runs at half the speed.
TEST(TrainingSlots, SlowsAJobDownWhileItIsOnASlot) {
  TrainingSlots slots = three_devices();
  slots.begin_lease(1, 10);
  slots.put(2, 1);
  EXPECT_EQ(slots.slot_of(2), 1U);
  EXPECT_EQ(slots.slots()[1].job, 2U);
  EXPECT_DOUBLE_EQ(slots.slowdowns()[2], 0.5);
  slots.check();
  slots.leave(2);
  slots.leave(2);
  EXPECT_FALSE(slots.slot_of(2));
  EXPECT_DOUBLE_EQ(slots.slowdowns()[2], 0);
}

// Leases of 5 s and 20 s: 25 s in two.
TEST(TrainingSlots, AddsUpLeases) {
  TrainingSlots slots = three_devices();
  slots.begin_lease(0, 10);
  slots.begin_lease(2, 10);
  slots.end_lease(0, 15);
  EXPECT_EQ(slots.leases().begun, 2);
  EXPECT_EQ(slots.leases().ended, 1);
  slots.end_lease(2, 30);
  EXPECT_DOUBLE_EQ(slots.leases().seconds, 25);
  EXPECT_FALSE(slots.slots()[2].lent_since_s);
}

TEST(TrainingSlotsDeathTest, StopsAtAJobOnASliceThatIsNotLent) {
  TrainingSlots slots = three_devices();
  slots.put(0, 2);
  EXPECT_DEATH(slots.check(), "a job runs only on a slice that is lent");
}

}  // namespace
}  // namespace tangram::control

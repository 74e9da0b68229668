#include "control/lease_decisions.h"

#include <gtest/gtest.h>

#include <memory>

#include "train/test_application.h"

namespace tangram::control {
namespace {

using Indices = std::vector<std::size_t>;

// Three devices on one node, with two, one and one slices that can be lent, and one uncut slot on device 0.
TrainingSlots four_slices(bool lends_slices = true) {
  return {{.devices = 3, .gpus_per_node = 4, .jobs = 4, .lends_slices = lends_slices},
          {{0, 0, 0.4, 0.5}, {1, 0, 0.5, 0.375}, {2, 1, 1, 1}, {3, 2, 1, 1}, {std::nullopt, 0, 0.1, 0.125}}};
}

const MayLend kEverything{true, true, true, true, false};

TEST(GpusToAskFor, AreAsManyAsTheJobsWant) {
  const TrainingSlots slots = four_slices();
  EXPECT_EQ(gpus_to_ask_for(slots, 0, kEverything), Indices{});
  EXPECT_EQ(gpus_to_ask_for(slots, 2, kEverything), (Indices{0, 1}));
  EXPECT_EQ(gpus_to_ask_for(slots, 9, kEverything), (Indices{0, 1, 2}));
}

// Device 0 has a slice that inference needs, and device 1 is lent already.
TEST(GpusToAskFor, PassOverDevicesOfWhichInferenceNeedsASlice) {
  TrainingSlots slots = four_slices();
  slots.begin_lease(2, 0);
  EXPECT_EQ(gpus_to_ask_for(slots, 2, {true, false, true, true, false}), (Indices{2}));
  EXPECT_EQ(gpus_to_ask_for(slots, 1, {true, false, true, true, false}), Indices{});
}

// Three jobs without a GPU: one can have the uncut slot, so two slices are asked for.
TEST(SlotsToAskFor, AreOneForEachJobWithoutASlot) {
  const TrainingSlots slots = four_slices();
  EXPECT_EQ(slots_to_ask_for(slots, 1, kEverything), Indices{});
  EXPECT_EQ(slots_to_ask_for(slots, 3, kEverything), (Indices{0, 1}));
  EXPECT_EQ(slots_to_ask_for(slots, 3, {false, true, false, true, false}), (Indices{1, 3}));
  EXPECT_EQ(slots_to_ask_for(four_slices(false), 3, kEverything), Indices{});
}

// All three GPUs are whole and the jobs use one of them. They could use two, so one goes back: the last.
TEST(SurplusGpus, AreUnusedAndMoreThanTheJobsWant) {
  TrainingSlots slots = four_slices();
  for (const std::size_t slot : {0, 1, 2, 3}) slots.begin_lease(slot, 0);
  for (const std::size_t device : {0, 1, 2}) slots.set_whole(device, true);
  EXPECT_EQ(surplus_gpus(slots, 2, {1}), (Indices{1}));
  EXPECT_EQ(surplus_gpus(slots, 0, {1}), (Indices{1, 2}));
  EXPECT_EQ(surplus_gpus(slots, 0, {3}), Indices{});
  EXPECT_EQ(surplus_gpus(slots, 3, {1}), Indices{});
}

// Open are 1 (0.5), 0 (0.4) and 4 (0.1, uncut). Two jobs get the two fastest; the uncut one is not given back.
TEST(FillSlots, GivesTheFastestToTheFirst) {
  TrainingSlots slots = four_slices();
  slots.begin_lease(0, 0);
  slots.begin_lease(1, 0);
  const auto filling = fill_slots(slots, Indices{3, 2}, {false, false, false, false, false});
  ASSERT_EQ(filling.placements.size(), 2U);
  EXPECT_EQ(filling.placements[0].job, 3U);
  EXPECT_EQ(filling.placements[0].slot, 1U);
  EXPECT_EQ(filling.placements[1].job, 2U);
  EXPECT_EQ(filling.placements[1].slot, 0U);
  EXPECT_EQ(filling.returned, Indices{});
}

// Slot 0 is lent and nobody wants it. While inference needs slot 1, the device cannot come whole, and slot 0 goes back;
// when it may, slot 0 waits for the other.
TEST(FillSlots, ReturnsWhatNobodyUsesUnlessTheGpuComesWhole) {
  TrainingSlots slots = four_slices();
  slots.begin_lease(0, 0);
  EXPECT_EQ(fill_slots(slots, {}, {true, false, true, true, false}).returned, (Indices{0}));
  EXPECT_EQ(fill_slots(slots, {}, kEverything).returned, Indices{});
}

// Two jobs of the same application use three GPUs of node 0, and one is left: two steps, one GPU each. The job with two
// scales worse than it would with one, so that its second GPU is the smallest loss; after that the losses are equal.
TEST(ShrinkNode, TakesGpusOneByOneUntilTheNodeHasEnough) {
  const train::Application application = train::test_application("job", 10);
  const auto menu = std::make_shared<train::BatchMenu>(train::limits_of(application), 64);
  train::JobModel model(std::make_shared<train::StepKnowledge>(menu));
  model.observe({1, 1, 64, application.step_time({1}, 64)}, {1, 8});
  model.observe({1, 2, 64, application.step_time({2}, 64)}, {1, 8});
  const train::Allocation two{{0, 2}, {1, 1}};
  const train::Allocation one{{0, 1}};
  std::vector<train::JobView> jobs(2);
  for (auto& job : jobs) {
    job.application = &application;
    job.model = &model;
    job.restart_fast_s = 0;
  }
  jobs[0].current = &two;
  jobs[1].current = &one;
  const auto steps = shrink_node(0, 1, jobs, 4);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].job, 0U);
  EXPECT_EQ(steps[0].allocation, (train::Allocation{{0, 1}, {1, 1}}));
  // The second GPU is that of one job or the other; node 1 is not touched.
  const train::Allocation expected = steps[1].job == 0 ? train::Allocation{{1, 1}} : train::Allocation{};
  EXPECT_EQ(steps[1].allocation, expected);
  EXPECT_TRUE(shrink_node(0, 3, jobs, 4).empty());
  EXPECT_EQ(two, (train::Allocation{{0, 2}, {1, 1}}));
}

}  // namespace
}  // namespace tangram::control

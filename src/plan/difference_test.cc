#include "plan/difference.h"

#include <gtest/gtest.h>

#include "plan/test_plans.h"
#include "plan/transition.h"

namespace tangram::plan {
namespace {

// The same two devices with their names exchanged: nothing has to be done.
TEST(Difference, OfAPermutationOfNamesIsEmpty) {
  const Plan before =
      plan_of({{"g-0", "a100-80gb", "4g@0 rank:1:8, 3g@4 tag:1:4"}, {"g-1", "a100-80gb", "7g@0 rank:1:32"}});
  Plan after = before;
  std::swap(after.devices[0].name, after.devices[1].name);
  const auto difference = diff(before, after);
  ASSERT_TRUE(difference.ok());
  EXPECT_TRUE(difference->empty());
  EXPECT_TRUE(same_content(difference->target, before));
  EXPECT_EQ(difference->counts.slices_kept, 3);
  EXPECT_EQ(difference->devices[0].role, "g-1");
}

// By name, all three slices are cut anew.
TEST(Difference, OfAPermutationIsTotalWhereNamesAreBinding) {
  const Plan before =
      plan_of({{"g-0", "a100-80gb", "4g@0 rank:1:8, 3g@4 tag:1:4"}, {"g-1", "a100-80gb", "7g@0 rank:1:32"}});
  Plan after = before;
  std::swap(after.devices[0].name, after.devices[1].name);
  const auto difference = diff(before, after, {.rename = false, .move = false});
  ASSERT_TRUE(difference.ok());
  EXPECT_EQ(difference->counts.slices_destroyed, 3);
  EXPECT_EQ(difference->counts.slices_created, 3);
  EXPECT_TRUE(same_content(difference->target, after));
}

// Three equal slices whose replicas go round in a circle: the old places serve as well.
TEST(Difference, LeavesSlicesWhereTheyAre) {
  const Plan before = plan_of({{"g-0", "a100-80gb", "2g@0 a:1:1, 2g@2 b:1:1, 2g@4 c:1:1"}});
  const Plan after = plan_of({{"g-0", "a100-80gb", "2g@0 c:1:1, 2g@2 a:1:1, 2g@4 b:1:1"}});
  EXPECT_TRUE(diff(before, after)->empty());
  EXPECT_EQ(diff(before, after, {.rename = true, .move = false})->counts.slices_changed, 3);
}

// A 3g joins two 1g. Where the plan puts it, at 0, one of them lies; at 4 nothing does.
TEST(Difference, PutsNewSlicesWhereNothingLies) {
  const Plan before = plan_of({{"g-0", "a100-80gb", "1g@0 a:1:1, 1g@1 b:1:1"}});
  const Plan after = plan_of({{"g-0", "a100-80gb", "3g@0 c:1:1, 1g@4 a:1:1, 1g@5 b:1:1"}});
  const auto difference = diff(before, after);
  ASSERT_TRUE(difference.ok());
  EXPECT_EQ(difference->counts.slices_kept, 2);
  EXPECT_EQ(difference->counts.slices_created, 1);
  EXPECT_EQ(to_string(difference->devices[0].after.geometry, layout_of(difference->devices[0].after)),
            "1g.10gb@0 + 1g.10gb@1 + 3g.40gb@4");
}

// 1g@1 and 1g@5 leave no room for a 4g, which only starts at 0: the 1g at 1 has to go, the other stays.
TEST(Difference, GivesUpAsFewSlicesAsTheNewOnesNeed) {
  const Plan before = plan_of({{"g-0", "a100-80gb", "1g@1 a:1:1, 1g@5 b:1:1"}});
  const Plan after = plan_of({{"g-0", "a100-80gb", "4g@0 c:1:1, 1g@4 a:1:1, 1g@6 b:1:1"}});
  const auto difference = diff(before, after);
  ASSERT_TRUE(difference.ok());
  EXPECT_EQ(difference->counts.slices_kept, 1);
  EXPECT_EQ(difference->counts.slices_destroyed, 1);
  EXPECT_EQ(difference->counts.slices_created, 2);
}

TEST(Difference, TellsRetunedReplicasFromLoadedOnes) {
  const Plan before = plan_of({{"g-0", "a30", "2g@0 a:64:8 b:1:1, 2g@2 c:1:1"}});
  const Plan after = plan_of({{"g-0", "a30", "2g@0 a:64:4 d:1:1, 2g@2 c:1:1x2"}});
  const auto difference = diff(before, after);
  ASSERT_TRUE(difference.ok());
  EXPECT_EQ(difference->counts.slices_changed, 2);
  EXPECT_EQ(difference->counts.replicas_retuned, 1);  // a
  EXPECT_EQ(difference->counts.replicas_stopped, 2);  // b, and c with one process
  EXPECT_EQ(difference->counts.replicas_loaded, 2);   // d, and c with two
}

TEST(Difference, IgnoresTheOrderOfReplicas) {
  const Plan before = plan_of({{"g-0", "a30", "2g@0 a:1:1 b:1:1"}});
  const Plan after = plan_of({{"g-0", "a30", "2g@0 b:1:1 a:1:1"}});
  EXPECT_TRUE(diff(before, after)->empty());
  EXPECT_TRUE(same_content(before, after));
}

// The new plan needs one device and calls it g-5; g-1 already is what it wants, so g-0 is freed and g-5 is never used.
TEST(Difference, FreesTheDeviceThatIsLeastUseful) {
  const Plan before = plan_of({{"g-0", "a30", "4g@0 a:1:1"}, {"g-1", "a30", "2g@0 b:1:1, 2g@2 c:1:1"}});
  const Plan after = plan_of({{"g-5", "a30", "2g@0 c:1:1, 2g@2 b:1:1"}});
  const auto difference = diff(before, after);
  ASSERT_TRUE(difference.ok());
  EXPECT_EQ(difference->counts.devices_before, 2);
  EXPECT_EQ(difference->counts.devices_after, 1);
  EXPECT_EQ(difference->counts.slices_kept, 2);
  EXPECT_EQ(difference->counts.slices_destroyed, 1);
  EXPECT_EQ(difference->target.devices[0].name, "g-1");
}

TEST(Difference, NeverExchangesDevicesOfDifferentTypes) {
  const Plan before = plan_of({{"g-0", "a100-80gb", "3g@0 a:1:1"}, {"g-1", "h100-80gb", "3g@0 b:1:1"}});
  const Plan after = plan_of({{"g-0", "a100-80gb", "3g@0 b:1:1"}, {"g-1", "h100-80gb", "3g@0 a:1:1"}});
  EXPECT_EQ(diff(before, after)->counts.slices_changed, 2);
}

TEST(Difference, RefusesADeviceThatChangesItsType) {
  const auto difference = diff(plan_of({{"g-0", "a30", "4g@0"}}), plan_of({{"g-0", "a100-80gb", "7g@0"}}));
  ASSERT_FALSE(difference.ok());
  EXPECT_EQ(difference.error().message,
            "g-0 is of type a30 in one plan and of type a100-80gb in the other, or of another size");
}

// gpu-1 is given up, and gpu-0 takes its service: what others use on both stays, and nothing is put there.
TEST(Difference, LeavesWhatOthersUse) {
  Plan before = plan_of(
      {{"gpu-0", "a100-80gb", "4g.40gb@0 a:64:8, 3g.40gb@4"}, {"gpu-1", "a100-80gb", "2g.20gb@0 b:64:8, 3g.40gb@4"}});
  Plan after = plan_of({{"gpu-0", "a100-80gb", "2g.20gb@0 a:64:8, 2g.20gb@2 b:64:8, 3g.40gb@4"}});
  for (Plan* plan : {&before, &after}) {
    for (auto& device : plan->devices) device.slices.back().reserved = true;
  }
  const auto found = transition(before, after, {});
  ASSERT_TRUE(found.ok()) << found.error().message;
  for (const auto& step : found->steps) {
    for (const auto& slice : step.slices) EXPECT_LT(slice.start, 4) << step.device;
  }
  EXPECT_EQ(found->difference.counts.devices_after, 1);
  for (const auto& device : found->difference.devices) {
    EXPECT_EQ(to_string(device.after.geometry, reserved_of(device.after)), "3g.40gb@4");
  }
}

// B could stay at 4 if others did not use that slice by now; a larger one of theirs leaves no room there either.
TEST(Difference, NeverMovesWhatOthersUse) {
  const Plan before = plan_of({{"g-0", "a100-80gb", "3g@0 a:1:1, 3g@4 b:1:1"}});
  for (const char* theirs : {"3g@4", "4g@0"}) {
    const bool above = std::string_view(theirs) == "3g@4";
    Plan after = plan_of({{"g-0", "a100-80gb", above ? "3g@0 b:1:1, 3g@4" : "4g@0, 3g@4 a:1:1"}});
    after.devices[0].slices[above ? 1 : 0].reserved = true;
    const auto difference = diff(before, after);
    ASSERT_TRUE(difference.ok());
    EXPECT_TRUE(same_content(difference->target, after)) << theirs;
  }
}

// With 2g@4 in the hands of others, the 2g of `a` may stay at 2 and `b` goes to 0, as the plan does not say.
TEST(Difference, MovesItsOwnSlicesBesideWhatOthersUse) {
  const Plan before = plan_of({{"g-0", "a100-80gb", "2g@2 a:1:1, 2g@4 b:1:1"}});
  Plan after = plan_of({{"g-0", "a100-80gb", "2g@0 a:1:1, 2g@2 b:1:1, 2g@4"}});
  after.devices[0].slices[2].reserved = true;
  const auto difference = diff(before, after);
  ASSERT_TRUE(difference.ok());
  Plan wanted = plan_of({{"g-0", "a100-80gb", "2g@0 b:1:1, 2g@2 a:1:1, 2g@4"}});
  wanted.devices[0].slices[2].reserved = true;
  EXPECT_TRUE(same_content(difference->target, wanted));
}

}  // namespace
}  // namespace tangram::plan

#include "sched/plan_move.h"

#include <gtest/gtest.h>

#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;
using Ids = std::vector<SliceId>;

// Slices of 1g, 2g, 3g and 7g serve one service; a batch of one on each.
testing::FixtureConfig move_cluster() {
  testing::FixtureConfig config;
  config.latency = {{"1g", {40ms}}, {"2g", {20ms}}, {"3g", {12ms}}, {"7g", {4ms}}};
  return config;
}

Deployment plan_for(const std::vector<std::string>& layouts) { return deployment_of(move_cluster(), layouts); }

// The move between two sets of layouts, from a cluster that is idle.
struct MoveCase {
  MoveCase(const Deployment& from, const Deployment& to) {
    table.reset(from.places, from.pools.size());
    plan = plan_move(from, table.all(), to);
  }
  SliceTable table;
  MovePlan plan;
};

TEST(PlanMove, HasNoStepsBetweenEqualPlans) {
  const MoveCase move(plan_for({"3g@0 + 3g@4", "7g@0"}), plan_for({"3g@0 + 3g@4", "7g@0"}));
  EXPECT_TRUE(move.plan.steps.empty());
  EXPECT_EQ(move.plan.deployment.places.size(), 3u);
}

// Slice 0 is the 7g; two 3g come in its place.
TEST(PlanMove, ReplacesTheSlicesOfADeviceThatIsCutOtherwise) {
  const Deployment next = plan_for({"3g@0 + 3g@4"});
  const MoveCase move(plan_for({"7g@0"}), next);
  ASSERT_EQ(move.plan.steps.size(), 1u);
  EXPECT_EQ(move.plan.steps[0].device, DeviceId(0));
  EXPECT_EQ(move.plan.steps[0].leaving, Ids{SliceId(0)});
  EXPECT_EQ(move.plan.steps[0].joining, (Ids{SliceId(1), SliceId(2)}));
  EXPECT_EQ(move.plan.steps[0].target, next.devices[0].layout);
  // Until then the device is cut as before.
  EXPECT_NE(move.plan.deployment.devices[0].layout, next.devices[0].layout);
}

// The 1g at 0 stays; the one at 1 becomes a 2g at 2.
TEST(PlanMove, KeepsASliceThatBothPlansHave) {
  const MoveCase move(plan_for({"1g@0 + 1g@1"}), plan_for({"1g@0 + 2g@2"}));
  ASSERT_EQ(move.plan.steps.size(), 1u);
  EXPECT_EQ(move.plan.steps[0].leaving, Ids{SliceId(1)});
  EXPECT_EQ(move.plan.steps[0].joining, Ids{SliceId(2)});
  const Deployment& joined = move.plan.deployment;
  EXPECT_LT(joined.places[0].pool.index(), 2u);  // A pool of the next plan, which has two.
  EXPECT_GE(joined.places[1].pool.index(), 2u);  // The old pool, which stands behind them.
}

// The same cut, but batches of two are allowed from now on: what the slice loads is not the same.
TEST(PlanMove, ReplacesASliceWhoseBatchLimitChanges) {
  auto larger = move_cluster();
  larger.latency["7g"] = {4ms, 7ms};
  const MoveCase move(plan_for({"7g@0"}), deployment_of(larger, {"7g@0"}));
  ASSERT_EQ(move.plan.steps.size(), 1u);
  EXPECT_EQ(move.plan.steps[0].leaving, Ids{SliceId(0)});
  EXPECT_EQ(move.plan.steps[0].joining, Ids{SliceId(1)});
}

// gpu-0 loses a slice, gpu-1 exchanges one, gpu-2 gains one: 2, 1, 0.
TEST(PlanMove, BeginsWithDevicesThatGainAndEndsWithThoseThatLose) {
  const MoveCase move(plan_for({"1g@0 + 1g@1", "7g@0", "1g@0"}), plan_for({"1g@0", "3g@0", "1g@0 + 1g@1"}));
  std::vector<std::uint32_t> order;
  for (const MoveStep& step : move.plan.steps) order.push_back(step.device.value());
  EXPECT_EQ(order, (std::vector{2u, 1u, 0u}));
}

TEST(PlanMove, AddsDevicesUncutAndEmptiesThoseThatAreLeftOut) {
  Deployment next = plan_for({"7g@0"});
  next.devices[0].name = "another";
  const MoveCase move(plan_for({"3g@0"}), next);
  const Deployment& joined = move.plan.deployment;
  ASSERT_EQ(joined.devices.size(), 2u);
  EXPECT_EQ(joined.devices[0].name, "gpu-0");
  EXPECT_EQ(joined.devices[1].name, "another");
  EXPECT_TRUE(joined.devices[1].layout.slices.empty());
  ASSERT_EQ(move.plan.steps.size(), 2u);
  EXPECT_EQ(move.plan.steps[0].device, DeviceId(1));
  EXPECT_EQ(move.plan.steps[1].device, DeviceId(0));
  EXPECT_TRUE(move.plan.steps[1].target.slices.empty());
}

// The 4g serves nothing and is there to be lent: no slice of ours comes or goes.
TEST(PlanMove, CutsADeviceForSlicesThatServeNothing) {
  const MoveCase move(plan_for({"3g@4"}), plan_for({"4g@0 + 3g@4"}));
  ASSERT_EQ(move.plan.steps.size(), 1u);
  EXPECT_TRUE(move.plan.steps[0].leaving.empty());
  EXPECT_TRUE(move.plan.steps[0].joining.empty());
}

TEST(PlanMove, ForgetsSlicesThatAreGone) {
  const Deployment from = plan_for({"1g@0 + 1g@1"});
  SliceTable table;
  table.reset(from.places, from.pools.size());
  table.leave(SliceId(0));
  const MovePlan plan = plan_move(from, table.all(), plan_for({"1g@0 + 1g@1"}));
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_TRUE(plan.steps[0].leaving.empty());
  EXPECT_EQ(plan.steps[0].joining, Ids{SliceId(2)});  // At the place of slice 0, whose id is not used again.
}

// Pools are listed by size: the new 3g before the old 7g.
TEST(PlanMove, ListsTheOldPoolsOfAServiceAmongTheNewOnesBySize) {
  const MoveCase move(plan_for({"7g@0"}), plan_for({"3g@0"}));
  const auto& pools = move.plan.deployment.services[0].pools;
  ASSERT_EQ(pools.size(), 2u);
  EXPECT_EQ(pools, (std::vector{PoolId(0), PoolId(1)}));
  EXPECT_EQ(move.plan.deployment.pools[1].compute_slices, 7);
}

// Old buckets up to 32 and 64. The new one up to 48 runs as that up to 64; the new one up to 100 not at all.
TEST(Translate, RunsEachNewBucketAsTheOldOneThatCoversIt) {
  PoolService entry{ServiceId(0), {8, 4}, LatencyTable(2, 8)};
  for (std::int32_t n = 1; n <= 8; ++n) entry.latency.set(0, n, {1ms * n, 2ms * n});
  for (std::int32_t n = 1; n <= 4; ++n) entry.latency.set(1, n, {10ms * n, 20ms * n});
  const PoolService result =
      translate(entry, std::vector<std::int64_t>{32, 64}, std::vector<std::int64_t>{16, 48, 100});
  EXPECT_EQ(result.batch_max, (std::vector{8, 4, 0}));
  EXPECT_EQ(Duration(result.latency.mean_ns(0, 3)), 3ms);
  EXPECT_EQ(Duration(result.latency.mean_ns(1, 3)), 30ms);
  EXPECT_EQ(Duration(result.latency.p99_ns(1, 3)), 60ms);
}

// ---- Walking the steps ----

TEST(Move, IsDoneAtOnceWithoutSteps) {
  Move move({}, 1);
  EXPECT_EQ(move.next({}), Move::Action::done);
}

TEST(Move, CutsADeviceOnceItsSlicesAreGone) {
  SliceTable table;
  table.reset(plan_for({"7g@0"}).places, 1);
  BatchDraft batch = table.draft(SliceId(0));
  Waiting running;
  batch.add(&running);
  table.go_busy(SliceId(0), {BatchId(1), ServiceId(0), 0, 1, kTimeZero, 4ms});
  Move move({{DeviceId(0), {}, {SliceId(0)}, {}}}, 1);
  EXPECT_EQ(move.next(table.all()), Move::Action::drain);
  table.leave(SliceId(0));
  EXPECT_EQ(move.next(table.all()), Move::Action::wait);
  table.retire(SliceId(0));
  EXPECT_EQ(move.next(table.all()), Move::Action::reshape);
  EXPECT_EQ(move.next(table.all()), Move::Action::wait);
  EXPECT_EQ(move.on_reshaped(DeviceId(0), true, 3), Move::Answer::over);
  move.finish_step();
  EXPECT_EQ(move.next(table.all()), Move::Action::done);
}

// Two attempts are allowed: the second failure is the last. The next device has two of its own.
TEST(Move, GivesADeviceUpAfterItsLastAttempt) {
  Move move({{DeviceId(0), {}, {}, {}}, {DeviceId(1), {}, {}, {}}}, 1);
  for (const DeviceId device : {DeviceId(0), DeviceId(1)}) {
    EXPECT_EQ(move.next({}), Move::Action::drain);
    EXPECT_EQ(move.next({}), Move::Action::reshape);
    EXPECT_EQ(move.step().device, device);
    EXPECT_EQ(move.on_reshaped(device, false, 2), Move::Answer::retry);
    EXPECT_EQ(move.next({}), Move::Action::reshape);
    EXPECT_EQ(move.on_reshaped(device, false, 2), Move::Answer::give_up);
    move.finish_step();
  }
  EXPECT_EQ(move.next({}), Move::Action::done);
}

// Two at once: devices 0 to 2 gain a slice, 3 and 4 lose one and gain another, 5 and 6 lose one. Each kind ends before
// the next begins, and of the second kind one device at a time is without its slice.
TEST(Move, CutsSeveralDevicesAtOnceThatDoNotGiveUpWhatIsNeeded) {
  SliceTable table;
  table.reset(plan_for({"7g@0", "7g@0", "7g@0", "7g@0"}).places, 4);
  std::vector<MoveStep> steps;
  for (std::uint32_t d = 0; d < 7; ++d) {
    MoveStep step{DeviceId(d), {}, {}, {}};
    if (d >= 3) step.leaving = {SliceId(d - 3)};
    if (d < 5) step.joining = {SliceId(10 + d)};
    steps.push_back(step);
  }
  Move move(std::move(steps), 2);
  // Does what is asked for until the move waits, and answers which devices are cut then.
  const auto advance = [&] {
    std::vector<std::uint32_t> begun;
    while (true) {
      const auto action = move.next(table.all());
      if (action == Move::Action::drain) {
        for (const SliceId id : move.step().leaving) table.leave(id);
      } else if (action == Move::Action::reshape) {
        begun.push_back(move.step().device.value());
      } else {
        return begun;
      }
    }
  };
  const auto answer = [&](std::uint32_t device) {
    EXPECT_EQ(move.on_reshaped(DeviceId(device), true, 3), Move::Answer::over);
    EXPECT_EQ(move.step().device, DeviceId(device));
    move.finish_step();
    return advance();
  };
  using Devices = std::vector<std::uint32_t>;
  EXPECT_EQ(advance(), (Devices{0, 1}));
  EXPECT_EQ(answer(1), Devices{2});
  EXPECT_EQ(answer(0), Devices{});
  EXPECT_EQ(answer(2), Devices{3});
  EXPECT_EQ(answer(3), Devices{4});
  EXPECT_EQ(answer(4), (Devices{5, 6}));
  EXPECT_EQ(answer(6), Devices{});
  EXPECT_EQ(answer(5), Devices{});
  EXPECT_EQ(move.next(table.all()), Move::Action::done);
}

TEST(Move, TakesNoAnswerForAnotherDevice) {
  Move move({{DeviceId(0), {}, {}, {}}}, 1);
  move.next({});
  move.next({});
  EXPECT_DEATH(move.on_reshaped(DeviceId(1), true, 3), "the re-cut that was asked for");
}

}  // namespace
}  // namespace tangram::sched

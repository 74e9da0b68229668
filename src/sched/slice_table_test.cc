#include "sched/slice_table.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/rng.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;

Duration table_run_time(std::uint32_t, std::int32_t samples) { return 10ms * samples; }

// Three slices of pool 0 and one of pool 1.
class SliceTableTest : public ::testing::Test {
 protected:
  SliceTableTest() {
    for (const std::uint32_t pool : {0u, 0u, 0u, 1u}) places_.push_back({DeviceId(0), PoolId(pool), {}, 0});
    table_.reset(places_, 2);
  }
  void TearDown() override { EXPECT_EQ(why_broken(table_), ""); }

  Waiting* request() {
    Waiting& made = records_.emplace_back();
    made.request.id = RequestId(records_.size());
    made.request.service = ServiceId(0);
    return &made;
  }
  // A batch of one that takes `length` on an idle slice.
  void start(SliceId slice, TimePoint now, Duration length) {
    BatchDraft batch = table_.draft(slice);
    batch.add(request());
    table_.go_busy(slice, {BatchId(++batches_), ServiceId(0), 0, batch.samples, now, length});
  }
  void end(SliceId slice, TimePoint now) {
    table_.clear_members(slice);
    table_.go_idle(slice, now);
  }
  std::vector<std::uint32_t> idle(std::uint32_t pool) const {
    std::vector<std::uint32_t> slices;
    for (auto i = table_.pool(PoolId(pool)).idle.first; i != SliceState::kNone; i = table_[i].list_next) {
      slices.push_back(i);
    }
    return slices;
  }

  std::vector<Place> places_;
  std::deque<Waiting> records_;
  SliceTable table_;
  std::uint64_t batches_ = 0;
};

TEST_F(SliceTableTest, BeginsWithAllSlicesIdle) {
  EXPECT_EQ(idle(0), (std::vector{0u, 1u, 2u}));
  EXPECT_EQ(idle(1), std::vector{3u});
  EXPECT_EQ(table_.pool(PoolId(0)).present, 3u);
  EXPECT_EQ(table_.busy_count(), 0u);
}

TEST_F(SliceTableTest, ListsTheSliceThatHasBeenIdleLongestFirst) {
  start(SliceId(0), kTimeZero, 5ms);
  EXPECT_EQ(idle(0), (std::vector{1u, 2u}));
  EXPECT_EQ(table_.busy_count(), 1u);
  end(SliceId(0), kTimeZero + 5ms);
  EXPECT_EQ(idle(0), (std::vector{1u, 2u, 0u}));
  EXPECT_EQ(table_.busy_count(), 0u);
}

// Slice 0 runs until 5 ms; two requests of 10 ms each are bound to it, so it is free at 25 ms. The first leaves: 15 ms.
TEST_F(SliceTableTest, MovesFreeAtWithTheWorkThatIsBound) {
  start(SliceId(0), kTimeZero, 5ms);
  Waiting* first = request();
  table_.bind(SliceId(0), first, false, kTimeZero, table_run_time);
  table_.bind(SliceId(0), request(), false, kTimeZero, table_run_time);
  EXPECT_EQ(table_[0].free_at, kTimeZero + 25ms);
  EXPECT_EQ(table_.pool(PoolId(0)).backed_up.count, 1u);
  table_.unbind(SliceId(0), first, [](ServiceId) { return table_run_time; });
  EXPECT_EQ(table_[0].free_at, kTimeZero + 15ms);
}

// Slice 0 was expected to run until 5 ms. Without a queue it is free when its batch ends early, at 3 ms; with one it is
// free when that should be done, at 15 ms.
TEST_F(SliceTableTest, IsFreeAtTheEndOfItsBatchUnlessWorkIsBound) {
  start(SliceId(0), kTimeZero, 5ms);
  end(SliceId(0), kTimeZero + 3ms);
  EXPECT_EQ(table_[0].free_at, kTimeZero + 3ms);
  start(SliceId(1), kTimeZero, 5ms);
  table_.bind(SliceId(1), request(), false, kTimeZero, table_run_time);
  end(SliceId(1), kTimeZero + 3ms);
  EXPECT_EQ(table_[1].free_at, kTimeZero + 15ms);
  BatchDraft batch = table_.draft(SliceId(1));
  table_.take_own(SliceId(1), 1, batch);
  table_.go_busy(SliceId(1), {BatchId(9), ServiceId(0), 0, 1, kTimeZero + 3ms, 10ms});
  EXPECT_EQ(table_[1].free_at, kTimeZero + 13ms);
  EXPECT_EQ(table_.pool(PoolId(0)).backed_up.count, 0u);
}

// {a} and {b} are bound to slice 0, busy until 5 ms: free at 25 ms. Slice 1 takes {a}: 15 ms.
TEST_F(SliceTableTest, GivesItsFirstBatchToASliceThatSteals) {
  start(SliceId(0), kTimeZero, 5ms);
  const Waiting* a = request();
  table_.bind(SliceId(0), record_of(&a->request), false, kTimeZero, table_run_time);
  table_.bind(SliceId(0), request(), false, kTimeZero, table_run_time);
  BatchDraft batch = table_.draft(SliceId(1));
  table_.take_first_batch(SliceId(0), batch);
  EXPECT_EQ(batch.members, std::vector{&a->request});
  EXPECT_EQ(table_[0].free_at, kTimeZero + 15ms);
  table_.go_busy(SliceId(1), {BatchId(9), ServiceId(0), 0, 1, kTimeZero, 10ms});
}

TEST_F(SliceTableTest, CountsALentSliceAsPresentThoughItServesNothing) {
  table_.go_away(SliceId(1), SliceStatus::lent);
  EXPECT_EQ(idle(0), (std::vector{0u, 2u}));
  EXPECT_EQ(table_.pool(PoolId(0)).present, 3u);
  EXPECT_EQ(table_.pool(PoolId(0)).by_free_time.size(), 2u);
  table_.go_away(SliceId(1), SliceStatus::recalling);
  table_.go_away(SliceId(1), SliceStatus::restarting);
  table_.join(SliceId(1), kTimeZero + 1s);
  EXPECT_EQ(idle(0), (std::vector{0u, 2u, 1u}));
  EXPECT_EQ(table_[1].free_at, kTimeZero + 1s);
}

TEST_F(SliceTableTest, LosesAnIdleSliceThatLeavesAtOnceAndABusyOneAfterItsBatch) {
  start(SliceId(0), kTimeZero, 5ms);
  table_.leave(SliceId(0));
  table_.leave(SliceId(1));
  EXPECT_EQ(table_[0].status, SliceStatus::busy);
  EXPECT_TRUE(table_[0].retiring);
  EXPECT_EQ(table_[1].status, SliceStatus::gone);
  EXPECT_EQ(table_.pool(PoolId(0)).present, 1u);
  table_.clear_members(SliceId(0));
  table_.retire(SliceId(0));
  EXPECT_EQ(table_[0].status, SliceStatus::gone);
  EXPECT_EQ(table_.busy_count(), 0u);
}

// The fifth place is a planned slice: present, but not serving until it joins.
TEST_F(SliceTableTest, PlansASliceForEachPlaceThatItDoesNotHave) {
  places_[0].pool = PoolId(1);
  places_.push_back({DeviceId(1), PoolId(0), {}, 0});
  table_.rebuild(places_, 2);
  EXPECT_EQ(idle(1), (std::vector{0u, 3u}));
  EXPECT_EQ(table_[4].status, SliceStatus::planned);
  EXPECT_EQ(table_.pool(PoolId(0)).present, 3u);
  EXPECT_EQ(idle(0), (std::vector{1u, 2u}));
  table_.join(SliceId(4), kTimeZero + 1s);
  EXPECT_EQ(idle(0), (std::vector{1u, 2u, 4u}));
}

TEST_F(SliceTableTest, DoesNotLetABusySliceBeLent) {
  start(SliceId(0), kTimeZero, 5ms);
  EXPECT_DEATH(table_.go_away(SliceId(0), SliceStatus::lent), "step by step");
}

TEST_F(SliceTableTest, KeepsItsInvariantsWhateverHappens) {
  Rng rng(11);
  TimePoint now = kTimeZero;
  for (int step = 0; step < 5000; ++step) {
    now += rng.integer(0, 5) * 1ms;
    const SliceId id(static_cast<std::uint32_t>(rng.below(table_.size())));
    const SliceState& slice = table_[id.index()];
    const auto wish = rng.below(4);
    if (slice.status == SliceStatus::idle && wish < 3) {
      start(id, now, rng.integer(1, 20) * 1ms);
    } else if (slice.status == SliceStatus::idle) {
      table_.go_away(id, SliceStatus::lent);
    } else if (slice.status == SliceStatus::busy && wish < 2) {
      table_.bind(id, request(), slice.bound.tail().samples > 0 && rng.chance(0.5), now, table_run_time);
    } else if (slice.status == SliceStatus::busy && wish == 2) {
      end(id, now);
      if (!slice.bound.empty()) {
        BatchDraft batch = table_.draft(id);
        table_.take_own(id, slice.bound.first_batch_count(), batch);
        table_.go_busy(id, {BatchId(++batches_), ServiceId(0), 0, batch.samples, now, 10ms * batch.samples});
      }
    } else if (slice.status == SliceStatus::busy) {
      table_.go_away(id, SliceStatus::restarting);
      table_.clear_members(id);
      table_.clear_bound(id);
    } else if (slice.status == SliceStatus::restarting) {
      table_.join(id, now);
    } else {
      const bool lent = slice.status == SliceStatus::lent;
      table_.go_away(id, lent ? SliceStatus::recalling : SliceStatus::restarting);
    }
    ASSERT_EQ(why_broken(table_), "") << "step " << step;
  }
}

}  // namespace
}  // namespace tangram::sched

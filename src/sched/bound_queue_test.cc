#include "sched/bound_queue.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/rng.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;

// A batch of n samples takes 1 + 3 n ms in any bucket: 4 ms, 7 ms, 10 ms, ...
Duration bound_run_time(std::uint32_t, std::int32_t samples) { return 1ms + 3ms * samples; }
auto bound_run_times(ServiceId) { return bound_run_time; }

class BoundQueueTest : public ::testing::Test {
 protected:
  Waiting* request(Duration deadline = 1h, std::uint32_t bucket = 0, std::int32_t samples = 1) {
    Waiting& made = records_.emplace_back();
    made.request.id = RequestId(records_.size());
    made.request.service = ServiceId(0);
    made.request.samples = samples;
    made.request.deadline = kTimeZero + deadline;
    made.bucket = bucket;
    return &made;
  }
  Waiting* bind(Waiting* waiting, bool joins = false) {
    queue_.bind(waiting, joins, bound_run_time);
    return waiting;
  }
  std::vector<const Request*> take(std::uint32_t count) {
    std::vector<const Request*> members;
    BatchDraft batch{members};
    queue_.take(count, batch);
    return members;
  }
  void TearDown() override { EXPECT_EQ(queue_.why_broken(), ""); }

  std::deque<Waiting> records_;
  BoundQueue queue_;
};

// 4 ms for a alone, 7 - 4 = 3 ms more with b, and 4 ms for c, which opens the next batch.
TEST_F(BoundQueueTest, ChargesARequestWithWhatItAddsToItsBatch) {
  const Waiting* a = bind(request(30ms));
  const Waiting* b = bind(request(20ms), true);
  EXPECT_EQ(queue_.tail().samples, 2);
  EXPECT_EQ(queue_.tail().deadline, kTimeZero + 20ms);
  const Waiting* c = bind(request());
  EXPECT_EQ(Duration(a->bound_cost_ns), 4ms);
  EXPECT_EQ(Duration(b->bound_cost_ns), 3ms);
  EXPECT_EQ(Duration(c->bound_cost_ns), 4ms);
  EXPECT_EQ(Duration(queue_.work_ns()), 11ms);
  EXPECT_EQ(queue_.tail().samples, 1);
  EXPECT_EQ(queue_.first_batch_count(), 2u);
}

// Of {a, b, c}, 10 ms, a leaves: b is charged with 4 ms and c with 3 ms, 7 ms together.
TEST_F(BoundQueueTest, KeepsTheRestOfABatchTogetherWhenItsFirstRequestLeaves) {
  Waiting* a = bind(request());
  const Waiting* b = bind(request(), true);
  const Waiting* c = bind(request(), true);
  queue_.unbind(a, bound_run_times);
  EXPECT_EQ(a->bound_cost_ns, 0);
  EXPECT_TRUE(b->opens_batch);
  EXPECT_FALSE(c->opens_batch);
  EXPECT_EQ(Duration(b->bound_cost_ns), 4ms);
  EXPECT_EQ(Duration(queue_.work_ns()), 7ms);
  EXPECT_EQ(queue_.tail().samples, 2);
}

// {a}, {b}, {c, d}: without the batch {b} of its own the others stay as they were, 4 + 7 ms.
TEST_F(BoundQueueTest, LeavesOtherBatchesAloneWhenABatchOfOneLeaves) {
  bind(request());
  Waiting* b = bind(request());
  const Waiting* c = bind(request());
  bind(request(), true);
  queue_.unbind(b, bound_run_times);
  EXPECT_EQ(queue_.count(), 3u);
  EXPECT_TRUE(c->opens_batch);
  EXPECT_EQ(Duration(queue_.work_ns()), 11ms);
  EXPECT_EQ(queue_.tail().samples, 2);
}

TEST_F(BoundQueueTest, OpensTheBatchBeforeWhenTheLastOneLeaves) {
  bind(request(50ms));
  Waiting* last = bind(request(10ms));
  queue_.unbind(last, bound_run_times);
  EXPECT_EQ(queue_.tail().samples, 1);
  EXPECT_EQ(queue_.tail().deadline, kTimeZero + 50ms);
}

TEST_F(BoundQueueTest, TakesTheFirstBatchInTheOrderOfBinding) {
  const Waiting* a = bind(request(30ms));
  const Waiting* b = bind(request(20ms), true);
  bind(request(10ms));
  EXPECT_EQ(take(2), (std::vector{&a->request, &b->request}));
  EXPECT_EQ(a->bound_cost_ns, 0);
  EXPECT_EQ(Duration(queue_.work_ns()), 4ms);
}

TEST_F(BoundQueueTest, ClosesABatchThatIsCut) {
  bind(request());
  const Waiting* b = bind(request(), true);
  take(1);
  EXPECT_TRUE(b->opens_batch);
  EXPECT_EQ(queue_.tail().samples, 0);
}

TEST_F(BoundQueueTest, LetsNoRequestShareTheBatchOfOneThatMustRunAlone) {
  Waiting* alone = request();
  alone->alone = true;
  bind(alone);
  EXPECT_EQ(queue_.tail().samples, 0);
  bind(request());
  EXPECT_EQ(take(2), std::vector<const Request*>{&alone->request});
}

TEST_F(BoundQueueTest, IsEmptyAndWithoutWorkAfterClear) {
  Waiting* a = bind(request());
  Waiting* b = bind(request(), true);
  EXPECT_EQ(queue_.clear(), (std::vector{a, b}));
  EXPECT_EQ(queue_.work_ns(), 0);
  EXPECT_EQ(a->bound_cost_ns, 0);
  EXPECT_EQ(queue_.tail().samples, 0);
}

TEST_F(BoundQueueTest, KeepsItsInvariantsWhateverHappens) {
  Rng rng(7);
  for (int step = 0; step < 5000; ++step) {
    if (queue_.empty() || rng.chance(0.55)) {
      const bool joins = queue_.tail().samples > 0 && rng.chance(0.6);
      const auto bucket = static_cast<std::uint32_t>(joins ? rng.below(queue_.tail().bucket + 1) : rng.below(3));
      Waiting* next = request(rng.integer(1, 100) * 1ms, bucket, static_cast<std::int32_t>(rng.integer(1, 4)));
      next->alone = !joins && rng.chance(0.1);
      bind(next, joins);
    } else if (rng.chance(0.5)) {
      Waiting* any = queue_.front();
      for (auto skip = rng.below(queue_.count()); skip > 0; --skip) any = any->next;
      queue_.unbind(any, bound_run_times);
    } else {
      take(static_cast<std::uint32_t>(1 + rng.below(queue_.count())));
    }
    ASSERT_EQ(queue_.why_broken(), "") << "step " << step;
  }
}

}  // namespace
}  // namespace tangram::sched

#include "sched/request_queue.h"

#include <gtest/gtest.h>

#include "sched/sample_class.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;

// 1 to 8 each have their own class, then four to an octave: 9-10, 11-12, 13-14, 15-16, 17-20, ...
TEST(SampleClass, StepsByAQuarterOctave) {
  const std::vector<std::int32_t> last{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80};
  for (std::uint32_t c = 0; c + 1 < last.size(); ++c) {
    EXPECT_EQ(sample_class(last[c]), c);
    EXPECT_EQ(sample_class(last[c] + 1), c + 1);
  }
}

Waiting queued(std::uint64_t id, int priority, Duration deadline) {
  Waiting w;
  w.request.id = RequestId(id);
  w.request.priority = priority;
  w.request.deadline = kTimeZero + deadline;
  return w;
}

TEST(RequestQueue, OrdersByPriorityThenDeadlineThenArrival) {
  Waiting a = queued(0, 0, 10ms), b = queued(1, 0, 5ms), c = queued(2, 1, 90ms), d = queued(3, 0, 5ms);
  RequestQueue queue;
  for (Waiting* w : {&a, &d, &c, &b}) queue.insert(w);
  EXPECT_EQ(queue.count(), 4u);
  EXPECT_EQ(queue.samples(), 4);
  queue.erase(&b);
  EXPECT_EQ(queue.pop_front(), &c);
  EXPECT_EQ(queue.pop_front(), &d);
  EXPECT_EQ(queue.pop_front(), &a);
  EXPECT_TRUE(queue.empty());
}

// Of four requests in the order b (priority 1), then by deadline 5, 10, 10 and 90 ms.
TEST(RequestQueue, CountsTheSamplesThatGoBefore) {
  Waiting a = queued(0, 0, 10ms), b = queued(1, 1, 70ms), c = queued(2, 0, 90ms), d = queued(3, 0, 5ms);
  Waiting e = queued(4, 0, 10ms);
  RequestQueue queue;
  EXPECT_EQ(queue.samples_before(a.request), 0);
  a.request.samples = 10;
  c.request.samples = 100;
  for (Waiting* w : {&a, &b, &c, &d, &e}) queue.insert(w);
  const auto before = [&](int priority, Duration deadline) {
    return queue.samples_before(queued(9, priority, deadline).request);
  };
  EXPECT_EQ(before(2, 1h), 0);
  EXPECT_EQ(before(1, 70ms), 1);
  EXPECT_EQ(before(0, 1ms), 1);
  EXPECT_EQ(before(0, 5ms), 2);
  EXPECT_EQ(before(0, 10ms), 13);
  EXPECT_EQ(before(0, 89ms), 13);
  EXPECT_EQ(before(0, 90ms), 113);
  EXPECT_EQ(before(-1, 1ms), 113);
}

// A record of an earlier request is not that of the one that holds it now.
TEST(RequestStore, FindsARecordWhileItsRequestLives) {
  RequestStore store(2);
  Request request;
  request.id = RequestId(7);
  Waiting* taken = store.take(request, 0);
  const RecordNumber number = taken->number;
  taken->place = RecordPlace::lane;
  EXPECT_EQ(store.find(number, RequestId(7)), taken);
  EXPECT_EQ(store.find(number, RequestId(8)), nullptr);
  EXPECT_EQ(store.find(kNoRecord, RequestId(7)), nullptr);
  store.give_back(taken);
  EXPECT_EQ(store.find(number, RequestId(7)), nullptr);
}

TEST(RequestStore, HandsOutUpToItsLimitAndReuses) {
  RequestStore store(2);
  Waiting* first = store.take({}, 0);
  store.take({}, 0);
  EXPECT_TRUE(store.full());
  first->bucket = 9;
  store.give_back(first);
  EXPECT_EQ(store.used(), 1u);
  EXPECT_EQ(store.take({}, 0)->bucket, 0u);
}

TEST(RecordOf, FindsTheRecordOfAMember) {
  Waiting record;
  const Request* member = &record.request;
  EXPECT_EQ(record_of(member), &record);
}

}  // namespace
}  // namespace tangram::sched

#include "serve/event_queue.h"

#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

TEST(EventQueue, GoesByTimeAndThenByTheOrderOfAdding) {
  EventQueue queue;
  EXPECT_EQ(queue.next_due(), kTimeNever);
  queue.add(TimePoint(2ms), WorldEventKind::done, 1, 10);
  queue.add(TimePoint(1ms), WorldEventKind::lost, 2);
  queue.add(TimePoint(1ms), WorldEventKind::returned, 3);
  EXPECT_EQ(queue.next_due(), TimePoint(1ms));
  EXPECT_EQ(queue.take().index, 2u);
  EXPECT_EQ(queue.take().index, 3u);
  EXPECT_EQ(queue.take().batch, 10u);
  EXPECT_EQ(queue.next_due(), kTimeNever);
}

}  // namespace
}  // namespace tangram::serve

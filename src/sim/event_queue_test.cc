#include "sim/event_queue.h"

#include <gtest/gtest.h>

#include <queue>
#include <tuple>

#include "base/rng.h"

namespace tangram::sim {
namespace {

using namespace std::chrono_literals;

// Of one instant, completions free slices before arrivals look for them, and wakes come last; within a lane, events
// come in the order in which they were pushed.
TEST(EventQueue, OrdersOneInstantByLaneThenSequence) {
  EventQueue queue;
  const TimePoint at = kTimeZero + 1s;
  queue.push(at, EventLane::wake, 0, 0, 0);
  queue.push(at, EventLane::arrival, 0, 1, 0);
  queue.push(at, EventLane::completion, 0, 2, 0);
  queue.push(at, EventLane::arrival, 0, 3, 0);
  queue.push(at - 1ns, EventLane::wake, 0, 4, 0);
  std::vector<std::uint32_t> order;
  while (!queue.empty()) order.push_back(queue.pop().index);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{4, 2, 1, 3, 0}));
}

TEST(EventQueue, AgreesWithThePriorityQueueOfTheStandardLibrary) {
  using Key = std::tuple<TimePoint, EventLane, std::uint64_t>;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Rng rng(seed);
    EventQueue queue;
    std::priority_queue<Key, std::vector<Key>, std::greater<>> reference;
    for (std::uint64_t step = 0; step < 20000; ++step) {
      if (reference.empty() || rng.chance(0.52)) {
        const TimePoint when = kTimeZero + Duration(rng.integer(0, 50));
        const auto lane = static_cast<EventLane>(rng.below(3));
        queue.push(when, lane, 0, 0, step);
        reference.emplace(when, lane, step);
      } else {
        ASSERT_EQ(queue.top().tag, std::get<2>(reference.top()));
        const Event event = queue.pop();
        ASSERT_EQ(event.when, std::get<0>(reference.top()));
        ASSERT_EQ(event.tag, std::get<2>(reference.top()));
        reference.pop();
      }
      ASSERT_EQ(queue.size(), reference.size());
    }
  }
}

}  // namespace
}  // namespace tangram::sim

#include "serve/held_calls.h"

#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

TEST(HeldCalls, AreDueAtTheirFirstDeadlineAndTakenInOrder) {
  HeldCalls held;
  Call first;
  Call second;
  held.add(&first, TimePoint(9ms));
  held.add(&second, TimePoint(4ms));
  EXPECT_EQ(held.next_due(), TimePoint(4ms));
  EXPECT_EQ(held.take_all(), (std::vector<Call*>{&first, &second}));
  EXPECT_TRUE(held.empty());
  EXPECT_EQ(held.next_due(), kTimeNever);
  // The second has been admitted; what is left is due at 9 ms.
  held.add(&first, TimePoint(9ms));
  EXPECT_EQ(held.next_due(), TimePoint(9ms));
  EXPECT_EQ(held.count(), 1u);
}

}  // namespace
}  // namespace tangram::serve

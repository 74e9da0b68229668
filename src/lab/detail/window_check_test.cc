#include "lab/detail/window_check.h"

#include <gtest/gtest.h>

namespace tangram::lab::detail {
namespace {

std::vector<sim::Tally> windows(std::size_t good, std::size_t bad) {
  sim::Tally keeps;
  keeps.arrived = 100;
  keeps.served = 99;
  sim::Tally breaks;
  breaks.arrived = 100;
  breaks.served = 98;
  std::vector<sim::Tally> list(good, keeps);
  list.insert(list.end(), bad, breaks);
  return list;
}

// 0.95^120 is 0.0021, so 120 good windows and none bad show that 95 % are good, but for 0.25 %. One bad one is too
// many.
TEST(WindowCheck, CountsWindowsThatAreSimulatedWhole) {
  WindowCheck check(0.99, 1);
  check.add(windows(120, 0));
  EXPECT_TRUE(check.holds(0.0025));
  EXPECT_FALSE(check.holds(0.002));
  EXPECT_EQ(check.kept(), 1);
  WindowCheck one_bad(0.99, 1);
  one_bad.add(windows(119, 1));
  EXPECT_FALSE(one_bad.holds(0.0025));
  EXPECT_FALSE(one_bad.is_broken(0.02));
}

// Where 12 of 100 windows are bad, 5 % are not.
TEST(WindowCheck, TellsThatTooManyAreBad) {
  WindowCheck check(0.99, 1);
  check.add(windows(88, 12));
  EXPECT_FALSE(check.holds(0.1));
  EXPECT_TRUE(check.is_broken(0.02));
  EXPECT_NEAR(check.kept(), 0.88, 1e-12);
}

// Half of the pieces have 99 %, the others 98 %: windows of 100 such pieces have 98.5 % with a deviation of 0.05
// points.
TEST(WindowCheck, JudgesLongWindowsByTheirPieces) {
  WindowCheck lower(0.98, 100);
  lower.add(windows(60, 60));
  EXPECT_TRUE(lower.holds(0.0025));
  WindowCheck higher(0.99, 100);
  higher.add(windows(60, 60));
  EXPECT_TRUE(higher.is_broken(0.02));
  EXPECT_NEAR(WindowCheck(0.99, 1).kept(), 1, 1e-12);
}

}  // namespace
}  // namespace tangram::lab::detail

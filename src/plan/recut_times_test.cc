#include "plan/recut_times.h"

#include <gtest/gtest.h>

namespace tangram::plan {
namespace {

// Two slices: (1 * 100 + 3 * 200) / 4 = 175 ms. One slice was not timed and takes as long as two; three and four were
// not timed either; five take 300 ms.
TEST(RecutTimes, FillsTheNumbersOfSlicesThatNobodyTimed) {
  EXPECT_EQ(medians_ms({{5, 10, 300}, {2, 1, 100}, {2, 3, 200}}), (std::vector<double>{175, 175, 175, 175, 300}));
  EXPECT_TRUE(medians_ms({}).empty());
}

TEST(RecutTimes, AreDividedByTheSpeedOfTheDay) {
  const RecutTimes fast = at_speed(RecutTimes{}, 60);
  EXPECT_NEAR(to_milliseconds(fast.create(1)), 52.0 / 60, 1e-6);
  EXPECT_NEAR(to_milliseconds(fast.destroy(7)), 164.0 / 60, 1e-6);
}

}  // namespace
}  // namespace tangram::plan

#include "control/surge_watch.h"

#include <gtest/gtest.h>

namespace tangram::control {
namespace {

// 100/s are 1,000 in a look of 10 s, with a deviation of 32: 1,120 are chance, 1,200 are not.
TEST(SurgeWatch, IgnoresChanceAndAnswersAJump) {
  SurgeWatch watch({});
  EXPECT_FALSE(watch.look(1120, 10, 100).has_value());
  const auto demand = watch.look(1200, 10, 100);
  ASSERT_TRUE(demand.has_value());
  EXPECT_NEAR(*demand, 1.25 * 120, 1e-9);
}

// A first surge goes to 400/s and is over when six looks are as planned again. The second shows 200/s at first, and is
// planned for at 400/s; a mere excess to 125/s is not.
TEST(SurgeWatch, MeetsTheNextSurgeWithWhatTheLastCameTo) {
  SurgeWatch watch({});
  EXPECT_NEAR(*watch.look(2000, 10, 100), 250, 1e-9);
  EXPECT_NEAR(*watch.look(4000, 10, 100), 500, 1e-9);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(watch.look(1000, 10, 100).has_value());
  EXPECT_NEAR(*watch.look(1250, 10, 100), 156.25, 1e-9);
  EXPECT_NEAR(*watch.look(2000, 10, 100), 400, 1e-9);
}

}  // namespace
}  // namespace tangram::control

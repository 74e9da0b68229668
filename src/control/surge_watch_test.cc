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

// 18/s are 3 in a look of a sixth of a second. Poisson numbers of mean 3 reach 10 once in 900 looks and 14 once in
// 290,000: the first is chance, the second is not. Without any traffic, four requests in a look are no surge.
TEST(SurgeWatch, KnowsHowFarSmallNumbersStray) {
  SurgeWatch watch({});
  EXPECT_FALSE(watch.look(10, 1.0 / 6, 18).has_value());
  EXPECT_FALSE(watch.look(4, 10, 0).has_value());
  EXPECT_TRUE(watch.look(14, 1.0 / 6, 18).has_value());
}

// A first surge goes to 400/s and is over when six looks are as planned again. The second shows 200/s at first, and is
// planned for at 400/s less two deviations of what was seen, (4000 - 2 * 63.2) / 10 = 387.4; a mere excess to 125/s is
// not.
TEST(SurgeWatch, MeetsTheNextSurgeWithWhatTheLastCameTo) {
  SurgeWatch watch({});
  EXPECT_NEAR(*watch.look(2000, 10, 100), 250, 1e-9);
  EXPECT_NEAR(*watch.look(4000, 10, 100), 500, 1e-9);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(watch.look(1000, 10, 100).has_value());
  EXPECT_NEAR(*watch.look(1250, 10, 100), 156.25, 1e-9);
  EXPECT_NEAR(*watch.look(2000, 10, 100), 387.35, 0.01);
}

// Looks of a sixth of a second at 600/s have 100 requests, with a deviation of 10. The highest of them shows 750/s by
// chance; what is remembered is (125 - 2 * 11.2) * 6 = 616/s.
TEST(SurgeWatch, RemembersAHeightWithoutWhatChanceAddsToShortLooks) {
  SurgeWatch watch({});
  const double look_s = 1.0 / 6;
  for (const std::uint64_t requests : {100, 90, 125, 110, 95}) watch.look(requests, look_s, 200);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(watch.look(33, look_s, 200).has_value());
  // 33 are expected: more than (5.77 + 2)^2 = 60.4 is a surge.
  EXPECT_NEAR(*watch.look(62, look_s, 200), 615.8, 1);
}

}  // namespace
}  // namespace tangram::control

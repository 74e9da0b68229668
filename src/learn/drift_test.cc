#include "learn/drift.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "learn/assume.h"
#include "learn/test_network.h"

namespace tangram::learn {
namespace {

class DriftTest : public testing::Test {
 protected:
  // Serves batches of 1 to 16 on two profiles with 1 % of jitter; stops when drift shows. The number served.
  int serve(double factor, int count) {
    Rng rng(7);
    for (int i = 0; i < count; ++i) {
      const std::int64_t batch = std::int64_t{1} << rng.below(5);
      const bool small = rng.chance(0.5);
      const auto m = small ? net.run("1g.10gb", 1, 9.5, batch) : net.run("3g.40gb", 3, 39.25, batch);
      const RunPoint point{m.device, m.mig_profile, m.model, m.batch, m.size, m.processes};
      if (detector.observe(point, *m.latency_ms * factor * (1 + 0.01 * rng.normal()))) return i + 1;
    }
    return count;
  }

  TestNetwork net;
  FittedModel model = *fit(net.table(), {}, {});
  DriftDetector detector{model, {}};
};

TEST_F(DriftTest, JitterIsNotDrift) {
  serve(1, 20000);
  EXPECT_FALSE(detector.drifted());
}

TEST_F(DriftTest, SlowerByAFifthIsNoticedWithinFortyBatches) {
  serve(1, 1000);
  EXPECT_LE(serve(1.2, 1000), 40);
  EXPECT_TRUE(detector.drifted());
  EXPECT_NEAR(detector.ratio(), 1.2, 0.03);
}

TEST_F(DriftTest, FasterIsNoticedToo) {
  serve(0.8, 1000);
  EXPECT_TRUE(detector.drifted());
  EXPECT_NEAR(detector.ratio(), 0.8, 0.03);
}

TEST_F(DriftTest, OneHiccupIsNotDrift) {
  EXPECT_FALSE(detector.observe({"a100-80gb", "1g.10gb", "net", 4, 1, 1}, 1e6));
  EXPECT_FALSE(detector.drifted());
}

// An H100 was assumed to be twice as fast and is half as fast as that. The refitted model says so, and the A100, which
// was measured, stays.
TEST(Drift, MovesTheSpeedOfAnAssumedDevice) {
  const TestNetwork net;
  FittedModel model = *fit(net.table(), {}, {});
  ASSERT_TRUE(assume(*parse_assumption("h100-80gb=a100-80gb*2"), model));
  DriftDetector detector(model, {});
  const RunPoint there{"h100-80gb", "1g.10gb", "net", 4, 1, 1};
  const RunPoint here{"a100-80gb", "1g.10gb", "net", 4, 1, 1};
  const double ms = model.estimate(here)->mean_ms;
  int served = 0;
  while (served < 1000 && !detector.observe(there, ms)) ++served;
  ASSERT_LT(served, 1000);
  const auto moved = refit(detector, {}, {});
  ASSERT_TRUE(moved) << moved.error().message;
  EXPECT_NEAR(moved->estimate(there)->mean_ms / ms, 1, 0.01);
  EXPECT_NEAR(moved->estimate(here)->mean_ms / ms, 1, 0.01);
}

// Served were only batches to 16 on two profiles; the refitted model also moves 7g at batch 256 by a fifth.
TEST_F(DriftTest, TheRefittedModelHasMovedEverywhere) {
  serve(1.2, 1000);
  const auto moved = refit(detector, {}, {});
  ASSERT_TRUE(moved.ok());
  for (const auto& m : {net.run("1g.10gb", 1, 9.5, 8), net.run("7g.80gb", 7, 78.75, 256)}) {
    const auto estimate = moved->runs()[0].estimate(candidate_of(m));
    EXPECT_NEAR(estimate->mean_ms / *m.latency_ms, 1.2, 0.04);
  }
  detector.restart(*moved);
  serve(1.2, 2000);
  EXPECT_FALSE(detector.drifted());
}

TEST_F(DriftTest, UnknownModelsAreIgnored) {
  EXPECT_FALSE(detector.observe({"a100-80gb", "1g.10gb", "stranger", 4, 1, 1}, 1));
  EXPECT_EQ(detector.ratio(), 1);
}

}  // namespace
}  // namespace tangram::learn

#include "sim/disturbances.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tangram::sim {
namespace {

constexpr std::int64_t kTable = 1'000'000;

TEST(Disturbances, LeaveARunAloneWhereTheModelsAreOff) {
  const NoiseModel noise;
  const FaultModel faults;
  Disturbances disturbances(noise, faults, Rng(1));
  EXPECT_FALSE(disturbances.loses_slices());
  for (int i = 0; i < 100; ++i) {
    const RunDraw run = disturbances.draw_run(kTable);
    EXPECT_EQ(run.real_ns, kTable);
    EXPECT_EQ(run.end, RunEnd::done);
    EXPECT_TRUE(disturbances.draw_reshape_ok());
  }
}

// The mean of 20,000 log-normal factors of spread 0.3 lies within 5 standard errors of 1:
// 5 * sqrt(exp(0.09) - 1) / sqrt(20,000) = 0.011.
TEST(Disturbances, SpreadRunTimesAroundTheirMean) {
  const NoiseModel noise{.spread = 0.3};
  const FaultModel faults;
  Disturbances disturbances(noise, faults, Rng(1));
  double sum = 0;
  for (int i = 0; i < 20'000; ++i) sum += static_cast<double>(disturbances.draw_run(kTable).real_ns) / kTable;
  EXPECT_NEAR(sum / 20'000, 1, 0.011);
}

// A tenth fails; of 10,000, within 5 * sqrt(0.1 * 0.9 / 10,000) = 0.015 of it. Being stuck is stronger than failing.
TEST(Disturbances, FailAsManyRunsAsTheModelSays) {
  const NoiseModel noise;
  const FaultModel failing{.fail_probability = 0.1};
  Disturbances disturbances(noise, failing, Rng(2));
  int failed = 0;
  for (int i = 0; i < 10'000; ++i) failed += disturbances.draw_run(kTable).end == RunEnd::failed ? 1 : 0;
  EXPECT_NEAR(failed / 10'000.0, 0.1, 0.015);
  const FaultModel stuck{.fail_probability = 1, .stuck_probability = 1};
  EXPECT_EQ(Disturbances(noise, stuck, Rng(3)).draw_run(kTable).end, RunEnd::never);
}

// The streams are apart: with faults on, run times are what they are without.
TEST(Disturbances, FaultsDoNotChangeTheNoise) {
  const NoiseModel noise{.spread = 0.2};
  const FaultModel none;
  const FaultModel failing{.fail_probability = 0.5};
  Disturbances calm(noise, none, Rng(4));
  Disturbances rough(noise, failing, Rng(4));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(calm.draw_run(kTable).real_ns, rough.draw_run(kTable).real_ns);
}

TEST(Disturbances, NeverLetARunTakeNoTime) {
  const NoiseModel noise{.factor = 1e-9};
  const FaultModel faults;
  EXPECT_EQ(Disturbances(noise, faults, Rng(5)).draw_run(10).real_ns, 1);
}

}  // namespace
}  // namespace tangram::sim

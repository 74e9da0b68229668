#include "learn/models/analytic_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "learn/models/kriged.h"

namespace tangram::learn {
namespace {

Features features(double compute, double bandwidth, double batch, double processes = 1, double size = 1) {
  return {compute, bandwidth, batch, size, processes};
}

// All parameters that stand for shares and growths far down, so that only launch and work remain.
Parameters plain(double launch_ms, double work_ms) {
  Parameters p{};
  p[kLaunch] = std::log(launch_ms);
  p[kWork] = std::log(work_ms);
  for (const auto small : {kMemoryShare, kConstantShare, kHost, kBatchOffset, kLaunchGrowth, kQuadratic})
    p[small] = -30;
  p[kSharpness] = std::log(20.0);
  p[kOverlap] = 30;
  return p;
}

// One sample of 2 ms under a launch of 5 ms takes 5 ms; 64 samples on four slices take 64 * 2 / 4 = 32 ms.
TEST(AnalyticFit, IsTheLargerOfLaunchAndWork) {
  const auto p = plain(5, 2);
  EXPECT_NEAR(std::exp(evaluate(p, 1, features(1, 1, 1)).log_ms), 5, 1e-6);
  EXPECT_NEAR(std::exp(evaluate(p, 1, features(4, 4, 64)).log_ms), 32, 1e-6);
}

// All work bound by memory: 3g and 4g of an A100 both have half of the bandwidth, so they are equally fast.
TEST(AnalyticFit, MemoryBoundWorkIgnoresCompute) {
  auto p = plain(1e-3, 2);
  p[kMemoryShare] = 30;
  const double three = evaluate(p, 1, features(3, 4, 64)).log_ms;
  const double four = evaluate(p, 1, features(4, 4, 64)).log_ms;
  EXPECT_NEAR(three, four, 1e-9);
  EXPECT_NEAR(std::exp(three), 64 * 2 / 4.0, 1e-6);
}

// Without work beside the GPU p processes wait for each other: p times as long. With host work as long as GPU work two
// processes overlap by mean value analysis: the second finds 1/2 queued, stays 1.5 and cycles in 2.5 instead of 3.
TEST(AnalyticFit, ProcessesTakeTurnsOnTheGpuAndOverlapBesideIt) {
  auto p = plain(1e-3, 1);
  EXPECT_NEAR(std::exp(evaluate(p, 1, features(1, 1, 8, 3)).log_ms), 24, 1e-6);
  p[kHost] = 0;
  EXPECT_NEAR(std::exp(evaluate(p, 1, features(1, 1, 8, 1)).log_ms), 16, 1e-6);
  EXPECT_NEAR(std::exp(evaluate(p, 1, features(1, 1, 8, 2)).log_ms), 20, 1e-6);
}

// Processes that run in step find all others before them: host 8 and three turns of 8 on the GPU.
TEST(AnalyticFit, ProcessesInStepOverlapNothing) {
  auto p = plain(1e-3, 1);
  p[kHost] = 0;
  p[kOverlap] = -30;
  EXPECT_NEAR(std::exp(evaluate(p, 1, features(1, 1, 8, 3)).log_ms), 8 + 3 * 8, 1e-6);
}

// With q = 1 at the reference, doubling the size multiplies work by 2 * (1 + 2) / (1 + 1) = 3.
TEST(AnalyticFit, AttentionIsQuadratic) {
  auto p = plain(1e-3, 1);
  p[kQuadratic] = 0;
  const double once = evaluate(p, 64, features(1, 1, 8, 1, 64)).log_ms;
  EXPECT_NEAR(std::exp(evaluate(p, 64, features(1, 1, 8, 1, 128)).log_ms - once), 3, 1e-9);
}

TEST(AnalyticFit, DerivativesAgreeWithDifferences) {
  Parameters p = general_prior().mean;
  p[kBatchExponent] = 0.05;
  p[kHost] = -1;
  for (const auto& at : {features(1, 1, 4, 1, 32), features(3, 4, 64, 3, 512), features(7, 8, 2, 5, 64)}) {
    const auto value = evaluate(p, 64, at);
    for (std::size_t i = 0; i < kParameterCount; ++i) {
      auto up = p;
      auto down = p;
      up[i] += 1e-5;
      down[i] -= 1e-5;
      const double slope = (evaluate(up, 64, at).log_ms - evaluate(down, 64, at).log_ms) / 2e-5;
      EXPECT_NEAR(value.gradient[i], slope, 1e-6) << parameter_name(i);
    }
  }
}

// Forty runs of a formula whose parameters lie within the general prior: the fit must give every run back to 2 %,
// for the prior pulls a little.
TEST(AnalyticFit, FindsTheParametersThatMadeTheRuns) {
  Parameters truth = general_prior().mean;
  truth[kLaunch] = std::log(9.0);
  truth[kWork] = std::log(0.4);
  truth[kMemoryShare] = 0.5;
  std::vector<Observation> runs;
  for (const auto& [compute, bandwidth] : {std::pair{1, 1}, {2, 2}, {3, 4}, {4, 4}, {7, 8}}) {
    for (double batch = 1; batch <= 128; batch *= 2) {
      const auto at = features(compute, bandwidth, batch);
      runs.push_back({at, evaluate(truth, 1, at).log_ms});
    }
  }
  const AnalyticFit start{general_prior().mean, general_prior(), 1};
  const auto fitted = fit_analytic(runs, general_prior(), 1, residual_factor(runs, start, {}));
  for (const auto& run : runs) EXPECT_NEAR(fitted.log_ms(run.features), run.log_ms, 0.02);
}

TEST(AnalyticFit, KnowsSlicesByComputeAndBandwidth) {
  const auto three = features_of("a100-80gb", {.mig_profile = "3g.40gb", .batch = 2});
  ASSERT_TRUE(three);
  EXPECT_EQ(three->compute, 3);
  EXPECT_EQ(three->bandwidth, 4);
  EXPECT_EQ(features_of("cpu", {.mig_profile = "1.5c"})->compute, 1.5);
  EXPECT_FALSE(features_of("a100-80gb", {.mig_profile = "5g.40gb"}));
  EXPECT_FALSE(features_of("abacus", {.mig_profile = "1g"}));
}

}  // namespace
}  // namespace tangram::learn

#include "sched/corrections.h"

#include <gtest/gtest.h>

namespace tangram::sched {
namespace {

// One service on slices of one kind.
Deployment deployment(const std::string& kind, std::vector<std::int64_t> edges) {
  Deployment result;
  const std::size_t buckets = edges.size();
  result.services.push_back({"a", {}, 0, Padding::bucket, std::move(edges), {PoolId(0)}, 4});
  result.pools.push_back(
      {kind, 1, 1, {{ServiceId(0), std::vector<std::int32_t>(buckets, 4), LatencyTable(buckets, 4)}}});
  return result;
}

// A share of 0.1 of a ratio of 2: 1 + 0.1 * (2 - 1). The bucket up to 20 stays, at another place; that up to 10 is
// gone.
TEST(Corrections, AreKeptForWhatTheNextPlanStillHas) {
  Corrections corrections(0.1);
  corrections.resize(deployment("x/1g", {10, 20}));
  corrections.learn(0, 0, 3, 3, 0);
  corrections.learn(0, 1, 3, 2, 0);
  corrections.resize(deployment("x/1g", {20, 30}));
  EXPECT_DOUBLE_EQ(corrections.factor(0, 0, 3), 1.1);
  EXPECT_DOUBLE_EQ(corrections.factor(0, 1, 3), 1);
}

TEST(Corrections, AreNotCarriedToAnotherKindOfSlice) {
  Corrections corrections(0.1);
  corrections.resize(deployment("x/1g", {10}));
  corrections.learn(0, 0, 1, 2, 0);
  corrections.resize(deployment("x/2g", {10}));
  EXPECT_DOUBLE_EQ(corrections.factor(0, 0, 1), 1);
  EXPECT_LT(corrections.spread(0, 0, 1), 0);
}

// Run times 10 % above and below the mean in turn: the mean distance is 0.1, so the p99 of a normal distribution lies
// 2.33 / 0.80 * 0.1 = 0.29 above the mean. The factor swings by half a step, 0.005, which moves single distances.
TEST(Corrections, LearnHowFarRunTimesSpread) {
  Corrections corrections(0.1);
  corrections.resize(deployment("x/1g", {10}));
  for (int i = 0; i < 1000; ++i) corrections.learn(0, 0, 1, i % 2 == 0 ? 0.9 : 1.1, 0.05);
  EXPECT_NEAR(corrections.spread(0, 0, 1), 0.29, 0.03);
  EXPECT_NEAR(corrections.factor(0, 0, 1), 1, 0.01);
}

// What is remembered is found again where kind, service and bucket are the same, whatever their numbers.
TEST(Corrections, AreRememberedBeyondADeployment) {
  Corrections before(0.1);
  before.resize(deployment("x/1g", {10, 20}));
  before.learn(0, 1, 3, 2, 0.25);
  const auto memory = before.memory();
  ASSERT_EQ(memory.size(), 1U);
  EXPECT_EQ(memory[0].edge, 20);
  EXPECT_EQ(memory[0].factor_ppb, 1'100'000'000);
  Corrections after(0.1);
  after.resize(deployment("x/1g", {20, 30}));
  const auto place = after.find(memory[0]);
  ASSERT_TRUE(place);
  EXPECT_TRUE(after.set(*place, memory[0].factor_ppb, memory[0].spread_ppb));
  EXPECT_DOUBLE_EQ(after.factor(0, 0, 3), 1.1);
  EXPECT_EQ(after.memory()[0].spread_ppb, memory[0].spread_ppb);
  after.resize(deployment("x/2g", {20}));
  EXPECT_FALSE(after.find(memory[0]));
  EXPECT_FALSE(after.set({1, 0, 0}, 1'000'000'000, 0));
  EXPECT_FALSE(after.set({0, 0, 0}, 0, 0));
}

}  // namespace
}  // namespace tangram::sched

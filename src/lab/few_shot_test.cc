#include "lab/few_shot.h"

#include <gtest/gtest.h>

#include <cmath>

#include "learn/test_network.h"

namespace tangram::lab {
namespace {

std::vector<FewShotTable> three_tables() {
  Measurements all;
  for (const auto& net :
       {learn::TestNetwork{"a", 4, 1}, learn::TestNetwork{"b", 6, 2}, learn::TestNetwork{"c", 9, 3}}) {
    const auto table = net.table(2);
    all.insert(all.end(), table.begin(), table.end());
  }
  return few_shot_tables("test", all);
}

learn::Belief certain(double ms) { return {std::log(ms), 0, 1}; }

// Two batches on one slice: 4 samples in 10 ms and 8 samples in 16 ms are 0.4 and 0.5 samples a millisecond. Under 12
// ms only the first keeps the promise; under 20 ms both do and the second is better.
class SloRegret : public testing::Test {
 protected:
  double loss(double slo_ms, std::vector<learn::Belief> believed, std::vector<double> real) {
    const auto regret = slo_regret("a100-80gb", {{"1g.10gb", 4, 1, 1}, {"1g.10gb", 8, 1, 1}}, {slo_ms});
    const std::vector<std::vector<double>> realities{std::move(real)};
    return regret.loss(believed, realities);
  }
};

TEST_F(SloRegret, IsNothingForWhoKnowsTheTruth) {
  EXPECT_EQ(loss(12, {certain(10), certain(16)}, {10, 16}), 0);
  EXPECT_EQ(loss(20, {certain(10), certain(16)}, {10, 16}), 0);
}

// Believing the second too slow loses 1 - 0.4 / 0.5.
TEST_F(SloRegret, IsTheThroughputThatACautiousChoiceLoses) {
  EXPECT_DOUBLE_EQ(loss(20, {certain(10), certain(21)}, {10, 16}), 1 - 0.4 / 0.5);
}

TEST_F(SloRegret, IsEverythingForAChoiceThatBreaksItsPromiseOrDoesNotFit) {
  EXPECT_EQ(loss(12, {certain(10), certain(11)}, {10, 16}), 1);
  EXPECT_EQ(loss(20, {certain(10), certain(16)}, {10, learn::kOutOfMemory}), 1);
}

TEST_F(SloRegret, IsNothingWhereNoPromiseCouldBeKept) { EXPECT_EQ(loss(5, {certain(1), certain(1)}, {10, 16}), 0); }

// Known to bring 0.4 samples a millisecond, or 8 samples in about 20 ms, which is the same with a deviation of 0.1.
// With s = 0.1 the mean excess is e^(s^2 / 2) * Phi(s) - Phi(0) = 1.00501 * 0.53983 - 0.5 = 0.0425 of what is known. If
// the second must end within 20 ms the excess is the same, because only faster runs exceed; within 10 ms it is none,
// because none is as fast.
TEST(SloGain, IsWhatACandidateMayBringBeyondTheChoice) {
  const std::vector<learn::Candidate> candidates{{"1g.10gb", 4, 1, 1}, {"1g.10gb", 8, 1, 1}};
  const std::vector<learn::Belief> believed{certain(10), {std::log(20.0), 0.2 / 3, 1}};
  for (const double slo_ms : {1000.0, 20.0}) {
    const auto gains = slo_regret("a100-80gb", candidates, {slo_ms}).gain(believed);
    EXPECT_EQ(gains[0], 0);
    EXPECT_NEAR(gains[1], 0.0425, 1e-4) << slo_ms;
  }
  EXPECT_LT(slo_regret("a100-80gb", candidates, {10}).gain(believed)[1], 1e-6);
}

// Half as probable to fit is half of the gain.
TEST(SloGain, CountsTheProbabilityOfFitting) {
  const std::vector<learn::Candidate> candidates{{"1g.10gb", 4, 1, 1}, {"1g.10gb", 8, 1, 1}};
  const auto regret = slo_regret("a100-80gb", candidates, {1000});
  const auto sure = regret.gain(std::vector<learn::Belief>{certain(10), {std::log(20.0), 0.2 / 3, 1}});
  const auto half = regret.gain(std::vector<learn::Belief>{certain(10), {std::log(20.0), 0.2 / 3, 0.5}});
  EXPECT_NEAR(half[1], sure[1] / 2, 1e-12);
}

// Three exact networks of one family: five runs and the other two tell everything to a few percent.
TEST(FewShot, ExactNetworksAreLearntFromFiveRuns) {
  const auto tables = three_tables();
  ASSERT_EQ(tables.size(), 3U);
  learn::Knowledge knowledge;
  for (const auto& table : tables) knowledge.seen.push_back(learn::know(table.measurements).seen.front());
  std::vector<FewShotRun> runs;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const FewShotReplay replay{.table = t, .sampler = learn::SamplerKind::active, .seed = 1, .budgets = {5, 10}};
    runs.push_back({replay, replay_few_shot(tables, knowledge, replay)});
    runs.back().outcomes.push_back(whole_few_shot(tables, knowledge, t));
  }
  const auto results = few_shot_results(tables, runs);
  ASSERT_EQ(results.size(), 9U);
  for (const auto& result : results) {
    EXPECT_EQ(result.measurements, result.budget);
    EXPECT_LT(result.median_error, 0.1) << result.model << " " << result.budget;
    EXPECT_LT(result.throughput_regret, 0.2);
    EXPECT_GE(result.coverage95, 0.8);
  }
}

TEST(FewShot, TheSameSeedGivesTheSameBytes) {
  const auto tables = three_tables();
  const FewShotReplay replay{.table = 1, .sampler = learn::SamplerKind::active, .seed = 9, .budgets = {8}};
  const auto once = replay_few_shot(tables, {}, replay);
  const auto again = replay_few_shot(tables, {}, replay);
  EXPECT_EQ(once[0].errors, again[0].errors);
  EXPECT_EQ(once[0].regret, again[0].regret);
}

// Nothing of `hopeless` fits, so there is nothing to judge; it is left out.
TEST(FewShot, ModelsOfWhichNothingFitsAreLeftOut) {
  Measurements all = learn::TestNetwork{}.table();
  Measurement m = all[0];
  m.model = "hopeless";
  m.latency_ms.reset();
  all.push_back(m);
  EXPECT_EQ(few_shot_tables("test", all).size(), 1U);
}

}  // namespace
}  // namespace tangram::lab

#include "lab/slo_regret.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tangram::lab {
namespace {

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

// The least latency is 2 ms and the p95 of these two is the larger one: from 1.5 * 2 = 3 ms to 30 ms.
TEST(TypicalSlos, SpanTheLatenciesThatWereMeasured) {
  Measurement fast;
  fast.latency_ms = 2;
  Measurement slow;
  slow.latency_ms = 30;
  Measurement out_of_memory;
  const auto slos = typical_slos_ms({fast, slow, out_of_memory});
  ASSERT_EQ(slos.size(), 12U);
  EXPECT_DOUBLE_EQ(slos.front(), 3);
  EXPECT_NEAR(slos.back(), 30, 1.5);
}

}  // namespace
}  // namespace tangram::lab

#include "learn/sampler.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "learn/test_network.h"

namespace tangram::learn {
namespace {

class SamplerTest : public testing::Test {
 protected:
  SamplerTest() {
    for (const auto& m : table) candidates.push_back(candidate_of(m));
  }

  SamplerChoice ask(const SamplerOptions& options) const {
    return next_measurement({.target = {"a100-80gb", "net"},
                             .candidates = candidates,
                             .measured = measured,
                             .knowledge = &knowledge,
                             .regret = regret.loss ? &regret : nullptr},
                            options);
  }

  void measure(std::size_t count, const SamplerOptions& options) {
    while (measured.size() < count) measured.push_back(table[*ask(options).next]);
  }

  Measurements table = TestNetwork{}.table(2);
  std::vector<Candidate> candidates;
  Measurements measured;
  Knowledge knowledge;
  Regret regret;
};

TEST_F(SamplerTest, NamesReadBack) {
  for (const auto kind : {SamplerKind::active, SamplerKind::random, SamplerKind::latin, SamplerKind::grid}) {
    EXPECT_EQ(parse_sampler_kind(to_string(kind)), kind);
  }
  EXPECT_FALSE(parse_sampler_kind("psychic"));
}

TEST_F(SamplerTest, NothingIsMeasuredTwiceByAnySampler) {
  for (const auto kind : {SamplerKind::active, SamplerKind::random, SamplerKind::latin, SamplerKind::grid}) {
    measured.clear();
    measure(20, {.kind = kind, .budget = 20});
    std::set<Candidate> distinct;
    for (const auto& m : measured) distinct.insert(candidate_of(m));
    EXPECT_EQ(distinct.size(), 20U) << to_string(kind);
  }
}

TEST_F(SamplerTest, StopsAtTheBudget) {
  measure(3, {.budget = 3});
  const auto choice = ask({.budget = 3});
  EXPECT_FALSE(choice.next);
  EXPECT_EQ(choice.reason, "the budget of 3 is reached");
}

TEST_F(SamplerTest, ActiveBeginsWithLaunchOnTheLargestSliceAndWorkOnTheSmallest) {
  measure(2, {});
  EXPECT_EQ(candidate_of(measured[0]), (Candidate{"7g.80gb", 1, 1, 1}));
  EXPECT_EQ(measured[1].mig_profile, "1g.10gb");
  EXPECT_GT(measured[1].batch, 1);
}

// An exact network is known to 2 % long before all 90 candidates are measured.
TEST_F(SamplerTest, ActiveStopsByItselfWhenTheErrorIsSmallEnough) {
  const SamplerOptions options{.budget = 90, .target_error = 0.02};
  while (const auto next = ask(options).next) measured.push_back(table[*next]);
  EXPECT_LT(measured.size(), 45U);
  EXPECT_GE(measured.size(), 3U);
}

// Of 90 candidates the first 60 were measured. Their own errors are nothing, and over all 90 the median would be one of
// them; what counts are the others.
TEST_F(SamplerTest, TheExpectedErrorIsThatOfWhatWasNotMeasured) {
  measured.assign(table.begin(), table.begin() + 60);
  EXPECT_GT(ask({.budget = 90}).expected_error, 0.001);
}

TEST_F(SamplerTest, StopsWhenEverythingThatFitsWasMeasured) {
  measured.assign(table.begin(), table.end());
  EXPECT_FALSE(ask({.budget = 200, .target_error = 0.02}).next);
  EXPECT_EQ(ask({.budget = 200, .target_error = 0.02}).expected_error, 0);
}

TEST_F(SamplerTest, TheSameQuestionGetsTheSameAnswer) {
  measure(5, {.seed = 3});
  EXPECT_EQ(ask({.seed = 3}).next, ask({.seed = 3}).next);
}

// Knowing candidate 40 is all that could bring the plan anything: that is what is measured next.
TEST_F(SamplerTest, ActiveMeasuresWhatThePlanWouldGainFrom) {
  measure(4, {});
  regret.loss = [](auto, auto) { return 1.0; };
  regret.gain = [](std::span<const Belief> believed) {
    std::vector<double> gains(believed.size());
    gains[40] = 0.5;
    return gains;
  };
  const auto choice = ask({});
  EXPECT_EQ(choice.next, 40U);
  EXPECT_EQ(choice.reason, "may improve a plan by 50.0 %");
  EXPECT_EQ(choice.expected_regret, 1);
}

// An error of 100 times the latency is small enough from the first prediction on, but eight runs are the least.
TEST_F(SamplerTest, ActiveDoesNotStopByItselfBeforeItHasEnoughToJudgeItself) {
  const SamplerOptions options{.budget = 90, .target_error = 100};
  while (const auto next = ask(options).next) measured.push_back(table[*next]);
  EXPECT_EQ(measured.size(), 8U);
}

TEST_F(SamplerTest, AfterRunsThatDidNotFitItTriesTheSmallestMemory) {
  for (const auto& m : table) {
    if (m.batch == 256 && m.mig_profile == "1g.10gb") measured.push_back(m);
  }
  ASSERT_TRUE(measured[0].out_of_memory());
  const auto choice = ask({});
  ASSERT_TRUE(choice.next);
  EXPECT_EQ(candidates[*choice.next].batch, 1);
}

// Batches to 128 are 8, times 5 slices, times 2 processes.
TEST_F(SamplerTest, TheSuggestedGridLeavesOutTheLargestBatch) { EXPECT_EQ(parvagpu_grid(candidates).size(), 80U); }

// Ten of 90 points: each of the five slices is used exactly twice, because ten steps are spread over five values.
TEST_F(SamplerTest, LatinUsesEverySliceEquallyOften) {
  measure(10, {.kind = SamplerKind::latin, .budget = 10});
  std::map<std::string, int> uses;
  for (const auto& m : measured) ++uses[m.mig_profile];
  for (const auto& [profile, count] : uses) EXPECT_EQ(count, 2) << profile;
}

TEST_F(SamplerTest, SaysSoWhenThereIsNothingToMeasure) {
  candidates.clear();
  EXPECT_FALSE(ask({}).next);
}

}  // namespace
}  // namespace tangram::learn

#include "experiments/few_shot.h"

#include <gtest/gtest.h>

#include <cmath>

#include "learn/test_network.h"

namespace tangram::experiments {
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

// Nothing of `unrecoverable` fits, so there is nothing to judge; it is left out.
TEST(FewShot, ModelsOfWhichNothingFitsAreLeftOut) {
  Measurements all = learn::TestNetwork{}.table();
  Measurement m = all[0];
  m.model = "unrecoverable";
  m.latency_ms.reset();
  all.push_back(m);
  EXPECT_EQ(few_shot_tables("test", all).size(), 1U);
}

}  // namespace
}  // namespace tangram::experiments

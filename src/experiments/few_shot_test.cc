#include "experiments/few_shot.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "learn/fit.h"
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

learn::Knowledge know_all(const std::vector<FewShotTable>& tables) {
  learn::Knowledge knowledge;
  for (const auto& table : tables) knowledge.seen.push_back(learn::know(table.measurements).seen.front());
  return knowledge;
}

learn::Knowledge know_others_of(const std::vector<FewShotTable>& tables, std::size_t table) {
  return know_others(tables, know_all(tables), left_out_models(tables, table, LeftOut::model));
}

// Three exact networks of one family: five runs and the other two tell everything to a few percent.
TEST(FewShot, ExactNetworksAreLearntFromFiveRuns) {
  const auto tables = three_tables();
  ASSERT_EQ(tables.size(), 3U);
  std::vector<FewShotRun> runs;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const auto knowledge = know_others_of(tables, t);
    const FewShotReplay replay{.table = t, .budgets = {5, 10}};
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
  const FewShotReplay replay{.table = 1, .seed = 9, .budgets = {8}};
  const auto once = replay_few_shot(tables, {}, replay);
  const auto again = replay_few_shot(tables, {}, replay);
  EXPECT_EQ(once[0].errors, again[0].errors);
  EXPECT_EQ(once[0].regret, again[0].regret);
}

// The runs that were not measured become four times as slow. A sampler that knows nothing of them cannot tell: it
// measures the same runs in the same order.
TEST(FewShot, TheSamplerKnowsNothingOfRunsThatItHasNotMeasured) {
  const auto tables = three_tables();
  const auto knowledge = know_others_of(tables, 1);
  const learn::SamplerOptions sampling{.budget = 12};
  const auto measured = measure_few_shot(tables[1], knowledge, sampling);
  ASSERT_EQ(measured.size(), 12U);
  FewShotTable slower = tables[1];
  for (auto& m : slower.measurements) {
    if (m.latency_ms && std::ranges::find(measured, m) == measured.end()) *m.latency_ms *= 4;
  }
  EXPECT_EQ(measure_few_shot(slower, knowledge, sampling), measured);
}

// A budget of the whole table: what is larger than a run that was out of memory is not measured, so the measurements
// are fewer, and at most one of two runs that are out of memory and differ only in their batch is among them.
TEST(FewShot, NothingLargerThanARunOutOfMemoryIsMeasured) {
  auto tables = three_tables();
  auto& rows = tables[0].measurements;
  std::size_t fails = 0;
  for (auto& m : rows) {
    if (m.batch < 8) continue;
    m.latency_ms.reset();
    ++fails;
  }
  ASSERT_GT(fails, 0U);
  const auto measured = measure_few_shot(tables[0], know_others_of(tables, 0), {.budget = rows.size()});
  EXPECT_LT(measured.size(), rows.size());
  for (std::size_t i = 0; i < measured.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(measured[j].out_of_memory() &&
                   learn::at_least_as_large(learn::candidate_of(measured[i]), learn::candidate_of(measured[j])))
          << i << " after " << j;
    }
  }
  // Every run that fits is worth a measurement.
  EXPECT_EQ(std::ranges::count_if(measured, [](const Measurement& m) { return !m.out_of_memory(); }),
            static_cast<std::ptrdiff_t>(rows.size() - fails));
}

// The intervals are those of `tangram learn`: counted here once more, with a model that it fitted.
TEST(FewShot, CoverageIsThatOfTheIntervalsThatUsersGet) {
  const auto tables = three_tables();
  const auto knowledge = know_others_of(tables, 2);
  EXPECT_FALSE(knowledge.errors.empty());
  const auto outcome = replay_few_shot(tables, knowledge, {.table = 2, .budgets = {12}}).front();
  const auto model = learn::fit(measure_few_shot(tables[2], knowledge, {.budget = 12}), knowledge, {});
  ASSERT_TRUE(model);
  std::size_t covered = 0;
  for (const auto& m : tables[2].measurements) {
    const auto estimate = model->estimate(learn::point_of(tables[2].target, learn::candidate_of(m)));
    if (!m.latency_ms || estimate->measured) continue;
    covered += estimate->low_ms <= *m.latency_ms && *m.latency_ms <= estimate->high_ms ? 1 : 0;
  }
  EXPECT_EQ(outcome.covered, covered);
}

TEST(FewShot, AFamilyIsLeftOutWhole) {
  EXPECT_EQ(family_of("resnet50"), family_of("resnet152"));
  EXPECT_EQ(family_of("vgg16"), "vgg");
  EXPECT_EQ(family_of("distiluse-base-multilingual-cased-v1"), family_of("bert-base-multilingual-cased"));
  EXPECT_NE(family_of("resnet50"), family_of("densenet121"));
  Measurements all;
  for (const char* name : {"net-16", "net-19", "other"}) {
    const auto table = learn::TestNetwork{name, 4, 1}.table(2);
    all.insert(all.end(), table.begin(), table.end());
  }
  const auto tables = few_shot_tables("test", all);
  EXPECT_EQ(left_out_models(tables, 0, LeftOut::model), (std::set<std::string>{"net-16"}));
  const auto family = left_out_models(tables, 0, LeftOut::family);
  EXPECT_EQ(family, (std::set<std::string>{"net-16", "net-19"}));
  const auto knowledge = know_others(tables, know_all(tables), family);
  ASSERT_EQ(knowledge.seen.size(), 1U);
  EXPECT_EQ(knowledge.seen[0].target.model, "other");
  for (const auto& error : knowledge.errors) EXPECT_EQ(error.model, "other");
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

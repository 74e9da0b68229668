#include "measure/campaign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/test_engine.h"

namespace tangram::measure {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const learn::Target kBert{"a100-80gb", "bert"};

Measurement row(const std::string& profile, std::int64_t batch, std::optional<double> latency_ms) {
  Measurement m;
  m.device = kBert.device;
  m.model = kBert.model;
  m.mig_profile = profile;
  m.batch = batch;
  m.size = 128;
  m.processes = 1;
  m.latency_ms = latency_ms;
  return m;
}

// Two profiles and batches 1 and 8, of which 1g.10gb at 8 was never measured.
Measurements rows_with_a_gap() { return {row("7g.80gb", 8, 9), row("1g.10gb", 1, 5), row("7g.80gb", 1, 3)}; }

const Geometry& a100() { return *find_geometry("a100-80gb"); }

// Profiles from small to large, batches ascending: 2 x 2 candidates, in the order in which samplers break ties.
TEST(Campaign, OpenAxesHaveTheValuesOfTheFile) {
  const auto task = task_of({.target = kBert}, a100(), rows_with_a_gap());
  ASSERT_TRUE(task) << task.error().message;
  EXPECT_THAT(task->candidates,
              ElementsAre(learn::Candidate{"1g.10gb", 1, 128, 1}, learn::Candidate{"1g.10gb", 8, 128, 1},
                          learn::Candidate{"7g.80gb", 1, 128, 1}, learn::Candidate{"7g.80gb", 8, 128, 1}));
}

TEST(Campaign, ReplayingAWholeFileLeavesItsGapsOut) {
  const auto task = task_of({.target = kBert, .only_known = true}, a100(), rows_with_a_gap());
  ASSERT_TRUE(task);
  EXPECT_THAT(task->candidates,
              ElementsAre(learn::Candidate{"1g.10gb", 1, 128, 1}, learn::Candidate{"7g.80gb", 1, 128, 1},
                          learn::Candidate{"7g.80gb", 8, 128, 1}));
}

// The short name 3g stands for 3g.40gb. Values come in ascending order, each once.
TEST(Campaign, NamedValuesReplaceThoseOfTheFile) {
  const Campaign campaign{.target = kBert, .axes = {.profiles = {"3g"}, .batches = {4, 2, 4}}};
  const auto task = task_of(campaign, a100(), rows_with_a_gap());
  ASSERT_TRUE(task) << task.error().message;
  EXPECT_THAT(task->candidates,
              ElementsAre(learn::Candidate{"3g.40gb", 2, 128, 1}, learn::Candidate{"3g.40gb", 4, 128, 1}));
  EXPECT_TRUE(campaign.axes.narrowed());
  EXPECT_FALSE(Axes{}.narrowed());
}

TEST(Campaign, RefusesAProfileThatTheDeviceDoesNotHave) {
  const auto task = task_of({.target = kBert, .axes = {.profiles = {"5g"}}}, a100(), rows_with_a_gap());
  ASSERT_FALSE(task);
  EXPECT_THAT(task.error().message, HasSubstr("--profiles: "));
}

// 2 profiles x 1,251 batches = 2,502 candidates.
TEST(Campaign, RefusesMoreCandidatesThanTheSamplerCompares) {
  Campaign campaign{.target = kBert};
  for (std::int64_t batch = 1; batch <= 1'251; ++batch) campaign.axes.batches.push_back(batch);
  const auto task = task_of(campaign, a100(), rows_with_a_gap());
  ASSERT_FALSE(task);
  EXPECT_THAT(task.error().message, HasSubstr("2502 configurations are more than the limit of 2500"));
}

TEST(Campaign, BudgetsReachTheTask) {
  Campaign campaign{.target = kBert, .minutes_max = 0.5};
  campaign.sampling.budget = 7;
  campaign.repeats.repeats_max = 3;
  const auto task = task_of(campaign, a100(), rows_with_a_gap());
  ASSERT_TRUE(task);
  EXPECT_EQ(task->budget.measurements_max, 7U);
  EXPECT_EQ(task->budget.time_max, from_seconds(30));
  EXPECT_EQ(task->repeats.repeats_min, 3U);  // Not more than the most.
}

// A host of four cores in quarters has slices of 1 to 16 units; only even ones, halves and whole cores, are measured.
// The largest input is 20, so the sizes are 8, 16 and 20.
TEST(Campaign, ChoosesAxesThatSuitTheModelAndTheHost) {
  Service service;
  service.input_size = ConstantSize{20};
  Axes axes{.batches = {3}};
  const Geometry host = cpu_geometry({.cores = 4, .memory_gib = 16, .quota = true});
  choose_axes(axes, service, host);
  EXPECT_THAT(axes.batches, ElementsAre(3));
  EXPECT_THAT(axes.sizes, ElementsAre(8, 16, 20));
  EXPECT_THAT(axes.processes, ElementsAre(1));
  for (const auto& name : axes.profiles) EXPECT_EQ(host.profiles[*find_profile(host, name)].units % 2, 0) << name;
  EXPECT_FALSE(axes.profiles.empty());
}

TEST(Campaign, SaysWhyNothingCanBeRun) {
  ScriptedClock clock;
  ScriptedEngine engine(clock, [](const RunPoint&, std::size_t) { return takes(from_seconds(1)); });
  const auto task = task_of({.target = kBert}, a100(), rows_with_a_gap());
  EXPECT_TRUE(check_candidates(*task, engine, "all.csv"));
  engine.refuse = [](const RunPoint&) { return std::optional<std::string>("no such slice"); };
  const auto checked = check_candidates(*task, engine, "all.csv");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message, "all.csv: none of the 4 requested configurations can be run: no such slice");
}

// Before any run has fitted there is no plan, so nothing can be lost by a bad one.
TEST(Campaign, AsksForRegretOnceARunHasFitted) {
  const Campaign campaign{.target = kBert};
  const learn::Knowledge knowledge = knowledge_without({}, kBert);
  int asked = 0;
  const RegretOf regret = [&](std::span<const learn::Candidate>, std::span<const Measurement>) {
    ++asked;
    return learn::Regret{};
  };
  const Choose choose = sampler_of(campaign, knowledge, regret);
  const auto task = task_of(campaign, a100(), rows_with_a_gap());
  const Measurements none_fitted{row("1g.10gb", 8, std::nullopt)};
  EXPECT_TRUE(choose(task->candidates, none_fitted).next);
  EXPECT_EQ(asked, 0);
  Campaign random = campaign;
  random.sampling.kind = learn::SamplerKind::random;
  sampler_of(random, knowledge, regret)(task->candidates, Measurements{row("7g.80gb", 8, 9)});
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace tangram::measure

#include "train/goodput.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train/job_model.h"
#include "train/test_application.h"

namespace tangram::train {
namespace {

// Noise 8 and square 1 at the smallest batch 64: four times the batch is worth (8 + 1) / (8 / 4 + 1) = 3 small steps,
// so a sample is worth 3/4.
TEST(Goodput, CountsWhatASampleOfALargeBatchIsWorth) {
  EXPECT_DOUBLE_EQ(gain({1, 8}, 256, 64), 3);
  EXPECT_DOUBLE_EQ(efficiency({1, 8}, 256, 64), 0.75);
  EXPECT_DOUBLE_EQ(efficiency({1, 8}, 64, 64), 1);
  EXPECT_DOUBLE_EQ(gain({-9, 8}, 256, 64), 1);  // A square that noise has made negative says nothing.
}

// 1000 samples on 2 workers of at most 128 each: 500 a worker take four passes of 125.
TEST(Goodput, SplitsABatchIntoPassesThatFit) {
  const BatchLimits limits{.batch_min = 64, .batch_max = 1024, .local_batch_min = 16, .local_batch_max = 128};
  EXPECT_EQ(split_batch(limits, 1000, 2), (BatchChoice{125, 3}));
  // A single worker needs a second pass as soon as the batch grows, to see the noise.
  EXPECT_EQ(split_batch(limits, 100, 1), (BatchChoice{50, 1}));
  EXPECT_EQ(split_batch(limits, 64, 1), (BatchChoice{64, 0}));
  // Rounding up must not pass the largest batch: 1024 / 3 = 341.3, three passes of 114, 1026 in all, hence 113.
  EXPECT_EQ(split_batch(limits, 1024, 3), (BatchChoice{113, 2}));
}

TEST(Goodput, OffersOnlySplitsThatAWorkerHolds) {
  const BatchLimits limits{.batch_min = 64, .batch_max = 1024, .local_batch_min = 16, .local_batch_max = 128};
  for (int replicas = 1; replicas <= 64; ++replicas) {
    const auto choices = batch_candidates(limits, replicas);
    ASSERT_FALSE(choices.empty());
    for (const auto& choice : choices) {
      EXPECT_GE(choice.local_batch, 16);
      EXPECT_LE(choice.local_batch, 128);
    }
  }
}

std::vector<ProfilePoint> points_of(const StepModel& truth, const std::vector<std::pair<int, int>>& sizes,
                                    const std::vector<int>& locals) {
  std::vector<ProfilePoint> points;
  for (const auto& [nodes, replicas] : sizes) {
    for (const int local : locals) {
      const double compute = truth.compute_s(local);
      const double sync = replicas > 1 ? truth.sync_s(nodes, replicas) : 0;
      const double step = std::sqrt(compute * compute + sync * sync);
      points.push_back({nodes, replicas, local, {step, step - compute}});
    }
  }
  return points;
}

TEST(StepFit, FindsTheModelThatMadeThePoints) {
  const StepModel truth = test_step_model();
  const auto points = points_of(truth, {{1, 1}, {1, 2}, {1, 4}, {2, 4}, {2, 8}, {4, 16}}, {16, 32, 64, 128});
  const StepModel fitted = fit_step_model(points, nullptr);
  for (const int local : {16, 50, 128}) {
    EXPECT_NEAR(fitted.compute_s(local) / truth.compute_s(local), 1, 0.03);
  }
  EXPECT_NEAR(fitted.sync_s(2, 8) / truth.sync_s(2, 8), 1, 0.25);
}

// One point on one worker says nothing about others: they are taken to cost nothing, so that the job gets to try them.
TEST(StepFit, BelievesThatWhatItHasNotSeenIsPerfect) {
  const auto points = points_of(test_step_model(), {{1, 1}}, {64});
  const StepModel fitted = fit_step_model(points, nullptr);
  EXPECT_LT(fitted.sync_s(1, 8), 1e-6);
  EXPECT_LT(fitted.sync_s(4, 16), 1e-6);
  EXPECT_NEAR(fitted.compute_s(64), test_step_model().compute_s(64), 1e-3);
  // Half of the time is taken to grow with the batch.
  EXPECT_NEAR(fitted.alpha_compute, test_step_model().compute_s(64) / 2, 1e-6);
}

TEST(StepFit, TakesSeveralNodesForSlowerThanOneUntilSeen) {
  const auto points = points_of(test_step_model(), {{1, 1}, {1, 2}, {1, 4}}, {16, 64, 128});
  const StepModel fitted = fit_step_model(points, nullptr);
  EXPECT_GE(fitted.sync_s(2, 4), fitted.sync_s(1, 4));
}

TEST(Application, KnowsItsLimitsFromItsTraces) {
  const Application app = test_application("net", 3);
  EXPECT_EQ(app.epochs(), 3);
  EXPECT_EQ(app.batch_min(), 64);
  EXPECT_EQ(app.batch_max(), 1024);
  EXPECT_EQ(app.local_batch_min(), 16);
  EXPECT_EQ(app.local_batch_max(), 128);
  EXPECT_FALSE(app.runs_alone());
  EXPECT_DOUBLE_EQ(app.progress_after(2), 200);
}

// At 24 samples, half way between those that were timed with 16 and with 32, and the same for every rotation.
TEST(Application, InterpolatesBetweenLocalBatches) {
  const Application app = test_application("net", 3);
  const double a = app.step_time({2, 2}, 16).step_s;
  const double b = app.step_time({2, 2}, 32).step_s;
  EXPECT_DOUBLE_EQ(app.step_time({2, 2}, 24).step_s, (a + b) / 2);
  EXPECT_DOUBLE_EQ(app.step_time({1, 3}, 32).step_s, app.step_time({3, 1}, 32).step_s);
  // Three workers on two nodes were not timed; two and four were.
  const double between = app.step_time({1, 2}, 32).step_s;
  EXPECT_GT(between, std::min(app.step_time({1, 1}, 32).step_s, app.step_time({2, 2}, 32).step_s));
  EXPECT_LT(between, std::max(app.step_time({1, 1}, 32).step_s, app.step_time({2, 2}, 32).step_s));
}

TEST(Application, RefusesTracesWithoutValidations) {
  const TimedStep step{.placement = {1}, .nodes = 1, .replicas = 1, .local_batch = 4, .time = {0.1, 0}};
  const auto made = Application::make("net", std::vector{step}, {});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message, "net: needs timed steps and validations for a simulation");
}

// After every size was tried, the job expects of eight workers on two nodes what they really give.
TEST(JobModel, PredictsGoodputFromWhatItTimed) {
  const Application app = test_application("net", 3);
  const auto menu = std::make_shared<BatchMenu>(limits_of(app), 64);
  JobModel job(std::make_shared<StepKnowledge>(menu));
  EXPECT_FALSE(job.known());
  EXPECT_EQ(job.choose(1, 1), (BatchChoice{64, 0}));
  for (const auto& point : points_of(test_step_model(), {{1, 1}, {1, 2}, {1, 4}, {2, 4}, {2, 8}}, {16, 32, 64, 128})) {
    job.observe(point, {1, 8});
  }
  const BatchChoice choice = job.choose(2, 8);
  const StepTime time = app.step_time({4, 4}, choice.local_batch);
  const double batch = choice.total(8);
  const double real =
      batch / (time.step_s + choice.accumulation * (time.step_s - time.sync_s)) * efficiency({1, 8}, batch, 64);
  EXPECT_NEAR(job.goodput(2, 8) / real, 1, 0.05);
}

}  // namespace
}  // namespace tangram::train

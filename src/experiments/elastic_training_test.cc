#include "experiments/elastic_training.h"

#include <gtest/gtest.h>

#include "train/test_application.h"

namespace tangram::experiments {
namespace {

train::Applications one_application() {
  train::Applications applications;
  applications.emplace("short", train::test_application("short", 5));
  return applications;
}

formats::ClusterJob job(const char* name, double submit_s, std::int64_t replicas) {
  return {.name = name,
          .submit_s = submit_s,
          .application = "short",
          .replicas = replicas,
          .batch = 64,
          .kind = formats::JobKind::training,
          .duration_s = std::nullopt};
}

SharedRun small_run() {
  SharedRun run = deepboot_run();
  run.allocator = "tiresias";  // Gives what was asked for.
  run.nodes = 2;
  return run;
}

// A job came at 7 s; five seconds must pass since the round at 4 s.
TEST(ElasticTraining, IsDueForAnEarlyRoundSomeSecondsAfterTheLast) {
  const auto applications = one_application();
  ElasticTraining training(applications, {job("a", 7, 2)}, small_run());
  training.hold_round(4, {4, 4});
  EXPECT_EQ(training.rounds(), 0);  // Nobody was there.
  EXPECT_EQ(training.next_look_s(4), 7);
  training.advance(4, 7);
  EXPECT_FALSE(training.early_round_due(7));
  EXPECT_EQ(training.next_look_s(7), 9);
  EXPECT_TRUE(training.early_round_due(9));
  training.hold_round(9, {4, 4});
  EXPECT_EQ(training.rounds(), 1);
  EXPECT_FALSE(training.early_round_due(60));
}

// Two GPUs are lent. A request takes one of them through a draft, and the job ends with the other.
TEST(ElasticTraining, CountsEveryLeaseThatBeginsAndEnds) {
  const auto applications = one_application();
  ElasticTraining training(applications, {job("a", 0, 2)}, small_run());
  training.advance(0, 60);
  training.hold_round(60, {4, 4});
  EXPECT_EQ(training.gpus(), 2);
  EXPECT_EQ(training.leases(), 2);
  auto draft = training.draft(60);
  const int node = draft.allocations[0].front().node;
  train::remove_gpu(draft.allocations[0], node);
  EXPECT_EQ(training.gpus(), 2);  // Not before it is applied.
  training.apply(draft);
  EXPECT_EQ(training.gpus(), 1);
  EXPECT_EQ(training.leases_ended(), 1);
  for (double now_s = 60; training.jobs().left() > 0 && now_s < 1e5; now_s += 60) training.advance(now_s, now_s + 60);
  EXPECT_EQ(training.jobs().left(), 0U);
  EXPECT_EQ(training.leases_ended(), training.leases());
}

TEST(TrainingDraft, LeavesANodeWithAllJobsThatAreOnIt) {
  TrainingDraft draft;
  draft.allocations = {{{.node = 0, .gpus = 2}, {.node = 1, .gpus = 1}}, {{.node = 1, .gpus = 3}}};
  EXPECT_EQ(draft.gpus_on_nodes(2), (std::vector<int>{2, 4}));
  EXPECT_EQ(draft.leave(1), 4);
  EXPECT_EQ(draft.gpus_on_nodes(2), (std::vector<int>{2, 0}));
}

}  // namespace
}  // namespace tangram::experiments

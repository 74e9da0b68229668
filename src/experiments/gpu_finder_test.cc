#include "experiments/gpu_finder.h"

#include <gtest/gtest.h>

#include "train/test_application.h"

namespace tangram::experiments {
namespace {

// Two nodes of one GPU each.
SharedRun tiny_run(train::ReclaimKind reclaim) {
  SharedRun run = deepboot_run();
  run.allocator = "tiresias";
  run.nodes = 2;
  run.gpus_per_node = 1;
  run.reclaim = reclaim;
  return run;
}

InferenceGpus no_gpus() { return {{}, {8}}; }

void run_on(InferenceGpus& gpus, int node) {
  gpus.run_cold({.application = 0, .now_s = 0, .submit_s = 0, .duration_s = 1}, node);
}

TEST(GpuFinder, PrefersAnEmptyGpu) {
  GpuFinder finder(tiny_run(train::ReclaimKind::least_loss));
  auto gpus = no_gpus();
  TrainingDraft nobody;
  run_on(gpus, 0);
  EXPECT_EQ(finder.find(nobody, gpus, 1, 0), 1);
  run_on(gpus, 1);
  EXPECT_FALSE(finder.find(nobody, gpus, 1, 0));  // Both run a request.
  EXPECT_EQ(finder.reclaims(), 0);
}

TEST(GpuFinder, TakesTheGpuOfAReplicaThatSleeps) {
  GpuFinder finder(tiny_run(train::ReclaimKind::least_loss));
  auto gpus = no_gpus();
  TrainingDraft nobody;
  run_on(gpus, 0);
  gpus.settle(9);   // Guarded from 9 s,
  gpus.settle(40);  // asleep from 40 s.
  run_on(gpus, 1);
  EXPECT_EQ(finder.find(nobody, gpus, 1, 40), 0);
  EXPECT_EQ(gpus.count(), 1U);
}

// Only a prompt scheduler takes what is guarded, and only if training has nothing.
TEST(GpuFinder, TakesAGuardedReplicaLast) {
  SharedRun run = tiny_run(train::ReclaimKind::least_loss);
  TrainingDraft nobody;
  for (const bool prompt : {false, true}) {
    run.prompt = prompt;
    GpuFinder finder(run);
    auto gpus = no_gpus();
    run_on(gpus, 0);
    gpus.settle(9);
    run_on(gpus, 1);
    EXPECT_EQ(finder.find(nobody, gpus, 1, 9), prompt ? std::optional(0) : std::nullopt);
  }
}

// A job has the GPU of either node. By least loss it gives one back; Aryl takes the node of the second half, which is
// that of inference.
TEST(GpuFinder, TakesAGpuBackFromTraining) {
  train::Applications applications;
  applications.emplace("short", train::test_application("short", 5));
  const std::vector<formats::ClusterJob> jobs{
      {.name = "a", .submit_s = 0, .application = "short", .replicas = 2, .batch = 64, .duration_s = std::nullopt}};
  for (const auto reclaim : {train::ReclaimKind::least_loss, train::ReclaimKind::server}) {
    const SharedRun run = tiny_run(reclaim);
    ElasticTraining training(applications, jobs, run);
    training.advance(0, 60);
    training.hold_round(60, {1, 1});
    ASSERT_EQ(training.gpus(), 2);
    GpuFinder finder(run);
    auto gpus = no_gpus();
    auto draft = training.draft(60);
    const auto node = finder.find(draft, gpus, 1, 60);
    ASSERT_TRUE(node);
    EXPECT_EQ(draft.gpus_on_nodes(2)[static_cast<std::size_t>(*node)], 0);
    EXPECT_GE(finder.reclaims(), 1);
    if (reclaim == train::ReclaimKind::server) {
      EXPECT_EQ(*node, 1);
    }
  }
}

}  // namespace
}  // namespace tangram::experiments

#include "experiments/shared_cluster.h"

#include <gtest/gtest.h>

#include <cmath>

#include "experiments/inference_load.h"
#include "train/test_application.h"

namespace tangram::experiments {
namespace {

train::Applications test_applications() {
  train::Applications applications;
  applications.emplace("short", train::test_application("short", 5));
  applications.emplace("long", train::test_application("long", 60));
  return applications;
}

std::vector<formats::ClusterJob> training_jobs(Rng& rng, int count) {
  std::vector<formats::ClusterJob> jobs;
  for (int i = 0; i < count; ++i) {
    jobs.push_back({.name = "job-" + std::to_string(i),
                    .submit_s = std::floor(rng.uniform(0, 1500)),
                    .application = rng.chance(0.7) ? "short" : "long",
                    .replicas = rng.integer(1, 4),
                    .batch = 256,
                    .duration_s = std::nullopt});
  }
  return jobs;
}

// Nothing else runs, so each request gets an empty GPU; the first is cold, and the second finds its replica guarded.
TEST(SharedCluster, ChargesAColdStartOnceAndNotWhileTheReplicaIsWarm) {
  const auto applications = test_applications();
  std::vector<formats::ClusterJob> jobs;
  for (const double at : {10.0, 40.0}) {
    jobs.push_back({.name = "r",
                    .submit_s = at,
                    .application = "infer-bert-1",
                    .kind = formats::JobKind::inference,
                    .duration_s = 5});
  }
  const auto warm = run_shared(applications, jobs, deepboot_run());
  EXPECT_EQ(warm.overheads_s, (std::vector<double>{8, 0}));
  SharedRun cold = deepboot_run();
  cold.keep_warm.kind = train::KeepWarmKind::none;
  EXPECT_EQ(run_shared(applications, jobs, cold).overheads_s, (std::vector<double>{8, 8}));
}

// The first request starts cold and runs from 18 to 23 s. The second comes at 20 s, and the replica that is started for
// it is ready at 28 s; the first one is idle from 23 s on. The third comes at 26 s and finds the first running until 28
// s, when the second is ready.
TEST(SharedCluster, GivesARequestTheFirstReplicaThatIsReady) {
  const auto applications = test_applications();
  std::vector<formats::ClusterJob> jobs;
  for (const double at : {10.0, 20.0, 26.0}) {
    jobs.push_back({.name = "r",
                    .submit_s = at,
                    .application = "infer-bert-1",
                    .kind = formats::JobKind::inference,
                    .duration_s = 5});
  }
  SharedRun run = tangram_run();
  EXPECT_EQ(run_shared(applications, jobs, run).overheads_s, (std::vector<double>{8, 3, 2}));
  // Nor is a request without a replica where none is kept warm.
  run.keep_warm.kind = train::KeepWarmKind::none;
  EXPECT_EQ(run_shared(applications, jobs, run).overheads_s.size(), 3U);
  run = tangram_run();
  run.first_ready = false;
  EXPECT_EQ(run_shared(applications, jobs, run).overheads_s, (std::vector<double>{8, 8, 0}));
}

formats::ClusterJob job_asking(const char* name, std::int64_t replicas) {
  return {.name = name,
          .submit_s = 0,
          .application = "short",
          .replicas = replicas,
          .batch = 64,
          .kind = formats::JobKind::training,
          .duration_s = std::nullopt};
}

TEST(SharedCluster, NamesAJobOrRequestThatNeverEnds) {
  SharedRun run = deepboot_run();
  run.allocator = "tiresias";
  run.interval_s = 3600;  // A year passes soon.
  EXPECT_EQ(run_shared(test_applications(), {job_asking("large", 65)}, run).unfinished, "large");
  formats::ClusterJob request = job_asking("endless", 1);
  request.kind = formats::JobKind::inference;
  request.duration_s = 1e8;
  EXPECT_EQ(run_shared(test_applications(), {job_asking("small", 1), request}, run).unfinished, "endless");
  EXPECT_EQ(run_shared(test_applications(), {job_asking("small", 1)}, run).unfinished, "");
}

struct Way {
  const char* allocator;
  train::ReclaimKind reclaim;
  bool ours;
  bool packed;
};
constexpr Way kWays[] = {{"deepboot", train::ReclaimKind::least_loss, false, false},
                         {"pollux", train::ReclaimKind::least_loss, false, false},
                         {"tiresias", train::ReclaimKind::random, false, false},
                         {"aryl", train::ReclaimKind::server, false, false},
                         {"afs", train::ReclaimKind::least_loss, false, false},
                         {"optimus", train::ReclaimKind::least_loss, false, false},
                         {"sia", train::ReclaimKind::cheapest, false, false},
                         {"tangram", train::ReclaimKind::cheapest, true, false},
                         {"tangram", train::ReclaimKind::cheapest, true, true}};

// Small clusters under loads that are often too much for them. The cluster itself stops at a GPU with two owners, at
// progress that falls and at work that never ends; here every job and request is counted.
TEST(SharedCluster, LosesNothingOverASwarmOfSeeds) {
  const auto applications = test_applications();
  for (std::uint64_t seed = 1; seed <= 36; ++seed) {
    const Way& way = kWays[seed % std::size(kWays)];
    Rng rng(seed);
    auto jobs = training_jobs(rng, static_cast<int>(rng.integer(1, 12)));
    const std::size_t training = jobs.size();
    const InferenceLoad load{.name = "load",
                             .requests = static_cast<int>(rng.integer(1, 300)),
                             .gap_mean_s = rng.uniform(2, 20),
                             .duration_max_s = 12,
                             .applications = static_cast<int>(rng.integer(1, 9))};
    for (auto& request : make_inference(load, {"bert", "ncf"}, seed)) jobs.push_back(std::move(request));
    SharedRun run = way.ours ? tangram_run() : deepboot_run();
    run.allocator = way.allocator;
    run.reclaim = way.reclaim;
    run.nodes = static_cast<int>(rng.integer(2, 6));
    run.options.population = run.options.generations = 10;
    if (way.packed) run.packed.emplace();
    const auto result = run_shared(applications, jobs, run);
    ASSERT_EQ(result.jcts_s.size(), training) << seed;
    for (const double jct : result.jcts_s) EXPECT_GT(jct, 0) << seed;
    EXPECT_EQ(result.overheads_s.size(), static_cast<std::size_t>(load.requests)) << seed;
    for (const double overhead : result.overheads_s) EXPECT_GE(overhead, 0) << seed;
    EXPECT_EQ(result.leases, result.leases_ended) << seed;
    EXPECT_EQ(run_shared(applications, jobs, run).jcts_s, result.jcts_s) << seed;
  }
}

}  // namespace
}  // namespace tangram::experiments

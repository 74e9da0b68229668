#include "lab/training_fleet.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/geometry.h"
#include "learn/models/analytic.h"
#include "train/test_application.h"

namespace tangram::lab {
namespace {

// One service of 100 requests/s at the peak, and jobs whose application is the step model itself.
struct Fleet {
  Plan plan;
  Workload workload;
  learn::AnalyticModel model{{run_times()}};
  TrainingSetup setup;

  static learn::AnalyticRun run_times() {
    learn::AnalyticRun run;
    run.model = "net";
    run.launch_ms = 2;
    run.sample_ms = 30;
    return run;
  }

  explicit Fleet(const std::vector<const char*>& layouts) {
    for (const char* layout : layouts) add_device(layout, true);
    Service service;
    service.name = "service";
    service.model = "net";
    service.slo = {std::chrono::milliseconds(200), 99};
    DiurnalTraffic traffic;
    traffic.rate_per_s = 55;
    traffic.amplitude = 0.8;
    traffic.period_s = 1200;
    traffic.peak_at_s = 600;
    service.traffic = traffic;
    workload.services.push_back(service);
    setup.applications.emplace("job", train::test_application("job", 40));
  }

  void add_device(const char* layout, bool serves) {
    PlannedDevice device;
    device.name = "gpu-" + std::to_string(plan.devices.size());
    device.type = "a100-80gb";
    device.geometry = *find_geometry("a100-80gb");
    for (const auto& slice : parse_layout(device.geometry, layout).layout.slices) {
      device.slices.push_back({slice, {}});
      if (serves) device.slices.back().replicas = {{"service", {{1, 8}}, 1}};
    }
    plan.devices.push_back(device);
  }

  void submit(double at_s) {
    setup.jobs.push_back(
        {.name = "j", .submit_s = at_s, .application = "job", .replicas = 1, .batch = 64, .duration_s = std::nullopt});
  }

  sim::SimulationResult run(TrainingResult* training) const {
    const auto deployment = sched::compile(plan, workload, model);
    sim::SimulationConfig config;
    config.duration = std::chrono::seconds(1200);
    config.faults.recall_s = 3;
    return simulate_with_training(setup, {plan, workload, *deployment, model}, config, training);
  }
};

// A GPU without replicas is training's own: nothing has to be lent for one job, which starts five seconds or less after
// it comes, and inference is as it would be alone.
TEST(TrainingFleet, UsesItsOwnGpusWithoutALease) {
  Fleet fleet({"7g.80gb@0"});
  fleet.add_device("7g.80gb@0", false);
  fleet.submit(10);
  fleet.setup.lend = LendMode::whole_gpu;
  TrainingResult training;
  const auto run = fleet.run(&training);
  EXPECT_EQ(training.leases, 0);
  ASSERT_EQ(training.jcts_s.size(), 1U);
  EXPECT_GE(run.metrics.total().slo_attainment(), 0.99);
}

// At the peak a 3g does 100 samples a second in batches of eight, and both are needed; at night one is enough. The
// other is lent for the jobs, and recalled when the rate rises.
TEST(TrainingFleet, TrainsOnSlicesAtNightAndGivesThemBackForThePeak) {
  Fleet fleet({"3g.40gb@0 + 3g.40gb@4"});
  for (int i = 0; i < 12; ++i) fleet.submit(10);
  TrainingResult training;
  const auto run = fleet.run(&training);
  EXPECT_EQ(training.jcts_s.size(), 12U);
  EXPECT_GE(training.leases, 2);
  EXPECT_GE(training.reclaims, 1);
  EXPECT_GE(run.metrics.total().slo_attainment(), 0.99);
  EXPECT_EQ(run.leases, static_cast<std::uint64_t>(training.leases));
  for (const auto& step : training.timeline) EXPECT_NEAR(step.sum(), 1, 1e-9);
}

// The same with whole GPUs only: one slice of the device is always needed, so nothing is ever lent and no job ends.
TEST(TrainingFleet, LendsNoGpuOfWhichASliceIsNeeded) {
  Fleet fleet({"3g.40gb@0 + 3g.40gb@4"});
  fleet.submit(10);
  fleet.setup.lend = LendMode::whole_gpu;
  fleet.setup.overtime_s = 100;
  TrainingResult training;
  fleet.run(&training);
  EXPECT_EQ(training.leases, 0);
  EXPECT_EQ(training.jobs, 1U);
  EXPECT_TRUE(training.jcts_s.empty());
  EXPECT_EQ(completion_text(training, training.jct_mean_s), "-");
  EXPECT_EQ(ended_text(training), "of the 0 that ended");
}

// Tiresias gives a job what it asked for or nothing, so two GPUs never do for three.
TEST(TrainingFleet, SaysWhichJobsDidNotEndAndWhichOfThemAskForTooMuch) {
  Fleet fleet({"7g.80gb@0"});
  fleet.add_device("7g.80gb@0", false);
  fleet.submit(10);
  fleet.submit(20);
  fleet.setup.jobs.front().name = "large";
  fleet.setup.jobs.front().replicas = 3;
  fleet.setup.allocator = "tiresias";
  fleet.setup.lend = LendMode::whole_gpu;
  fleet.setup.overtime_s = 600;
  TrainingResult training;
  fleet.run(&training);
  EXPECT_EQ(training.jcts_s.size(), 1U);
  EXPECT_EQ(unfinished_text(training), "large (asks for 3 GPUs of 2)");
  EXPECT_EQ(ended_text(training), "of the 1 that ended");
}

// A job that never starts keeps the fleet for 30,000 s after 1200 s of requests. Steps of 1200 / 480 = 2.5 s, which
// end on a tick and so take 3 s, would be 10,400; they double until there are fewer than 960.
TEST(TrainingFleet, DrawsALongOvertimeInLongerSteps) {
  Fleet fleet({"3g.40gb@0 + 3g.40gb@4"});
  fleet.submit(10);
  fleet.setup.lend = LendMode::whole_gpu;
  fleet.setup.overtime_s = 30000;
  TrainingResult training;
  fleet.run(&training);
  ASSERT_LT(training.timeline.size(), 960U);
  EXPECT_GE(training.timeline.size(), 400U);
  EXPECT_GT(training.timeline.back().at_s, 30000);
  for (const auto& step : training.timeline) {
    EXPECT_NEAR(step.sum(), 1, 1e-9);
    EXPECT_EQ(step.at_s, std::round(step.at_s * 1e6) / 1e6);
  }
}

// 2 s with 4 GPUs and 6 s with 8 are 8 s with 7; the next two last 1 s each.
TEST(OwnershipSteps, AreJoinedByHowLongTheyLast) {
  std::vector<Ownership> timeline(4);
  const double begins[] = {0, 2, 8, 9};
  const double training[] = {4, 8, 1, 3};
  for (std::size_t i = 0; i < 4; ++i) timeline[i] = {.at_s = begins[i], .training = training[i]};
  const auto half = coarser(timeline, 10);
  ASSERT_EQ(half.size(), 2U);
  EXPECT_DOUBLE_EQ(half[0].training, 7);
  EXPECT_DOUBLE_EQ(half[1].training, 2);
  EXPECT_EQ(half[1].at_s, 8);
}

// Two GPUs, one enough at night: the other trains whole, and a job that has both it and nothing else ends.
TEST(TrainingFleet, LendsAWholeGpuAtNight) {
  Fleet fleet({"3g.40gb@0", "3g.40gb@0"});
  fleet.submit(10);
  fleet.setup.lend = LendMode::whole_gpu;
  TrainingResult training;
  const auto run = fleet.run(&training);
  EXPECT_EQ(training.jcts_s.size(), 1U);
  EXPECT_GE(training.leases, 1);
  EXPECT_GE(run.metrics.total().slo_attainment(), 0.99);
}

}  // namespace
}  // namespace tangram::lab

#include <gtest/gtest.h>

#include "sched/test_fixture.h"
#include "sim/simulation.h"

namespace tangram::sim {
namespace {

using namespace std::chrono_literals;
using sched::testing::deployment_of;
using sched::testing::FixtureConfig;

// One slice, 5 ms for one and 1 ms more for each further of up to 16; a promise of 100 ms; 60 virtual seconds.
SimulationResult run_beside(double rate_per_s, std::size_t rows_under_way) {
  FixtureConfig cluster;
  std::vector<Duration> latency;
  for (int n = 0; n < 16; ++n) latency.push_back(5ms + n * 1ms);
  cluster.latency = {{"7g", latency}};
  cluster.services[0].slo = 100ms;
  Workload workload;
  workload.services.emplace_back();
  workload.services[0].name = workload.services[0].model = "s";
  workload.services[0].traffic = PoissonTraffic{rate_per_s};
  workload.services[0].slo.latency = 100ms;
  SimulationConfig config;
  config.duration = 60s;
  if (rows_under_way > 0) config.background.push_back({ServiceId(0), rows_under_way});
  return simulate(deployment_of(cluster, cluster.layouts), workload, config);
}

// Full batches carry 16 / 20 ms = 800/s. Whatever the load, nothing that is in time alone is late beside the job: a
// hundredth of a percent of difference is allowed for requests that are late anyway. At a tenth of the load the job
// gets more than half of what is left.
TEST(BackgroundJobs, CostOnlineRequestsNothing) {
  for (const double load : {0.1, 0.5, 0.8}) {
    SCOPED_TRACE(load);
    const auto alone = run_beside(load * 800, 0);
    const auto beside = run_beside(load * 800, 64);
    EXPECT_EQ(alone.requests, beside.requests);
    EXPECT_GE(beside.metrics.total().slo_attainment(), alone.metrics.total().slo_attainment() - 1e-4);
    EXPECT_GT(beside.background_answered, 0U);
    if (load == 0.1) {
      EXPECT_GT(static_cast<double>(beside.background_answered), 0.5 * 0.9 * 800 * 60);
    }
  }
}

// Twice what full batches carry: requests are rejected all the time, so there is no slack and no row runs but the few
// before that is known.
TEST(BackgroundJobs, StandStillWhereRequestsAreRejected) {
  const auto beside = run_beside(1600, 64);
  EXPECT_GT(beside.metrics.total().rejected_total(), 0U);
  EXPECT_LT(beside.background_answered, 200U);
}

// Twice what full batches carry, so that rows wait for up to a minute after the last request. They lengthen neither the
// time in which requests came nor that in which slices are busy: the last answer is due 100 ms after 60 s, and its
// batch takes at most 20 ms.
TEST(BackgroundJobs, DoNotStretchTheTimeOfTheRun) {
  const auto beside = run_beside(1600, 64);
  EXPECT_EQ(beside.counted, 60s);
  EXPECT_LT(beside.end, TimePoint(61s));
  for (const auto& slice : beside.metrics.slices) EXPECT_LE(slice.busy_ns, beside.end.time_since_epoch().count());
}

TEST(BackgroundJobs, RepeatThemselvesToTheByte) { EXPECT_EQ(run_beside(400, 16).digest, run_beside(400, 16).digest); }

}  // namespace
}  // namespace tangram::sim

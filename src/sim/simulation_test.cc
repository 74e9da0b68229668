#include "sim/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "sched/decision_log.h"
#include "sched/replay.h"
#include "sched/test_fixture.h"

namespace tangram::sim {
namespace {

using namespace std::chrono_literals;
using sched::testing::deployment_of;
using sched::testing::FixtureConfig;

struct Bench {
  FixtureConfig cluster;
  Workload workload;
  SimulationConfig config;

  SimulationResult run() {
    workload.services[0].name = workload.services[0].model = "s";
    config.scheduler.policy = cluster.policy;
    return simulate(deployment_of(cluster, cluster.layouts), workload, config);
  }
};

// One slice that takes 10 ms for a request.
Bench one_slice(Traffic traffic) {
  Bench bench;
  bench.cluster.policy = "fifs";
  bench.cluster.latency = {{"7g", {10ms}}};
  bench.workload.services.emplace_back();
  bench.workload.services[0].traffic = std::move(traffic);
  bench.workload.services[0].slo.latency = 100s;
  bench.config.scheduler.admission = false;
  return bench;
}

// M/D/1, Pollaczek and Khinchine: the mean wait is rho / (2 (1 - rho)) times the run time. At rho = 0.7 that is
// 0.7 / 0.6 x 10 ms = 11.667 ms; over a million requests it is known to better than 2 %.
TEST(Simulation, AgreesWithPollaczekAndKhinchine) {
  auto bench = one_slice(PoissonTraffic{70});
  bench.config.requests_max = 1'000'000;
  const auto result = bench.run();
  const double wait_ms = result.metrics.total().latency.mean() * 1e-6 - 10;
  EXPECT_NEAR(wait_ms, 11.667, 0.02 * 11.667);
  // The slice is busy for the share rho of all time, and every request was alone in its batch.
  EXPECT_NEAR(static_cast<double>(result.metrics.slices[0].busy_ns) / (1e9 * to_seconds(result.end)), 0.7, 0.005);
  EXPECT_EQ(result.batches, 1'000'000u);
}

// M/G/1 with a log-normal run time of mean 10 ms: the wait grows by (1 + c^2) / 2 over that of exponential times, with
// c^2 = exp(spread^2) - 1. At spread 0.5 c^2 = 0.284 and rho = 0.6: 0.6 / 0.4 x 10 ms x 1.284 / 2 = 9.63 ms.
TEST(Simulation, AgreesWithTheFormulaWhenRunTimesVary) {
  auto bench = one_slice(PoissonTraffic{60});
  bench.config.requests_max = 1'000'000;
  bench.config.noise.spread = 0.5;
  const double wait_ms = bench.run().metrics.total().latency.mean() * 1e-6 - 10;
  EXPECT_NEAR(wait_ms, 9.63, 0.03 * 9.63);
}

TEST(Simulation, RepeatsItselfToTheByte) {
  auto bench = one_slice(BurstTraffic{90, 5, 1, 4});
  bench.config.requests_max = 20000;
  bench.config.noise.spread = 0.3;
  bench.config.faults.fail_probability = 0.01;
  bench.config.log_decisions = true;
  const auto first = bench.run();
  const auto second = bench.run();
  EXPECT_EQ(first.digest, second.digest);
  EXPECT_EQ(first.decisions, second.decisions);
  bench.config.seed = 2;
  EXPECT_NE(bench.run().digest, first.digest);
}

// A model that is loaded on demand in 50 ms: the first batch takes 50 + 10 ms, the second, at 100 ms, only 10 ms.
TEST(Simulation, AddsTheLoadTimeToTheFirstBatchOfAModelOnDemand) {
  TraceTraffic replay;
  replay.trace = {{kTimeZero, 1, 1}, {kTimeZero + 100ms, 1, 1}};
  auto bench = one_slice(replay);
  bench.workload.services[0].name = bench.workload.services[0].model = "s";
  bench.config.scheduler.policy = bench.cluster.policy;
  sched::Deployment deployment = deployment_of(bench.cluster, bench.cluster.layouts);
  deployment.pools[0].services[0].model.on_demand = true;
  deployment.pools[0].services[0].model.load = 50ms;
  const auto result = simulate(deployment, bench.workload, bench.config);
  EXPECT_EQ(result.cold_starts, std::vector<std::uint64_t>{1});
  EXPECT_EQ(result.end, kTimeZero + 110ms);
  EXPECT_EQ(result.metrics.slices[0].busy_ns, 70'000'000);
}

// At 10 ms the batch of request 0 ends and request 1 arrives. The slice is free by then: the completion comes first.
TEST(Simulation, FreesSlicesBeforeArrivalsOfTheSameInstant) {
  TraceTraffic replay;
  replay.trace = {{kTimeZero, 1, 1}, {kTimeZero + 10ms, 1, 1}};
  auto bench = one_slice(replay);
  bench.workload.services[0].slo.latency = 10ms;
  bench.config.log_decisions = true;
  const auto result = bench.run();
  EXPECT_EQ(result.metrics.total().served, 2u);
  EXPECT_EQ(result.decisions,
            (std::vector<std::string>{
                "0.000000 arrival r0 s size 1 samples 1", "0.000000 launch b1 slice 0 padded 1 samples 1: r0",
                "0.010000 resolve r0 served", "0.010000 arrival r1 s size 1 samples 1",
                "0.010000 launch b2 slice 0 padded 1 samples 1: r1", "0.020000 resolve r1 served"}));
}

// Four clients and one slice: never more than four requests are under way, so an arrival finds three at most, one of
// which runs: two wait.
TEST(Simulation, ClosedLoopNeverHasMoreOutstandingThanClients) {
  auto bench = one_slice(ClosedLoopTraffic{4, 0});
  bench.config.requests_max = 5000;
  const auto result = bench.run();
  EXPECT_EQ(result.requests, 5000u);
  EXPECT_LE(result.metrics.queue_depth.max(), 2u);
  EXPECT_LE(result.metrics.total().latency.max(), 40'000'000u);
}

// Nobody serves the loop's requests, and its client does not think. Time passes all the same: one rejection each
// millisecond, the first at 0.
TEST(Simulation, AClosedLoopThatIsRejectedLetsTimePass) {
  auto bench = one_slice(ClosedLoopTraffic{1, 0});
  bench.workload.services[0].input_size = ConstantSize{99};
  bench.config.duration = 10ms;
  const auto result = bench.run();
  EXPECT_EQ(result.requests, 11u);
  EXPECT_EQ(result.metrics.total().rejected_total(), 11u);
}

// 1000 requests a second for 10 s on a slice that serves 100: by the middle 4500 wait, at the end 9000.
TEST(Simulation, ReadsTheQueueAtTheMiddleAndAtTheEnd) {
  auto bench = one_slice(ConstantTraffic{1000});
  bench.config.requests_max = 10000;
  const auto result = bench.run();
  EXPECT_NEAR(static_cast<double>(result.queue_at_middle), 4500, 5);
  EXPECT_NEAR(static_cast<double>(result.queue_at_end), 9000, 5);
}

// Ten requests a second, 10 ms each: the observer sees every arrival and every answer, and nobody waits.
TEST(Simulation, TellsItsObserverOfEveryRequest) {
  struct Count final : Observer {
    void on_arrival(const Request&, std::size_t waiting) override { arrived += 1 + 1000 * waiting; }
    void on_resolved(const Request& request, const Outcome& outcome, TimePoint now) override {
      if (outcome.kind == OutcomeKind::served && now - request.arrival == 10ms) ++answered;
    }
    std::size_t arrived = 0;
    std::size_t answered = 0;
  } count;
  auto bench = one_slice(ConstantTraffic{10});
  bench.config.requests_max = 50;
  bench.config.observer = &count;
  bench.run();
  EXPECT_EQ(count.arrived, 50u);
  EXPECT_EQ(count.answered, 50u);
}

// Requests of size 3 in a bucket up to 4, two to a batch that takes 10 ms like a batch of one. 3/4 of the padded size
// is real, so a full batch is useful for 7.5 ms; the first, alone, for half of that.
TEST(Simulation, CountsUsefulTimeWithoutPaddingAndEmptyPlaces) {
  TraceTraffic replay;
  replay.trace = {{kTimeZero, 3, 1}, {kTimeZero, 3, 1}, {kTimeZero, 3, 1}};
  auto bench = one_slice(replay);
  bench.cluster.latency = {{"7g", {10ms, 10ms}}};
  bench.cluster.services = {{.edges = {4}}};
  bench.workload.services[0].input_size = TraceSize{};
  const auto result = bench.run();
  EXPECT_EQ(result.metrics.slices[0].busy_ns, 20'000'000);
  EXPECT_NEAR(result.metrics.slices[0].useful_ns, 3.75e6 + 7.5e6, 1);
  EXPECT_EQ(result.metrics.slices[0].size_real, 9);
  EXPECT_EQ(result.metrics.slices[0].size_padded, 12);
  EXPECT_DOUBLE_EQ(result.metrics.service_total(0).padding_share(), 0.25);
  EXPECT_EQ(result.metrics.batch_sizes[0][0].count(1), 1u);
  EXPECT_EQ(result.metrics.service_batch_sizes(0).count(2), 1u);
}

// At once two small and three large requests, one to a batch of 10 ms. The first runs; the small one after it finds
// nobody, the large ones find 0, 1 and 2 of their bucket and 1, 2 and 3 of the service. Sizes 3 and 5 are padded to 4
// and 8.
TEST(Simulation, CountsQueueAndPaddingOfEachBucket) {
  TraceTraffic replay;
  replay.trace = {{kTimeZero, 3, 1}, {kTimeZero, 3, 1}, {kTimeZero, 5, 1}, {kTimeZero, 5, 1}, {kTimeZero, 5, 1}};
  auto bench = one_slice(replay);
  bench.cluster.services = {{.edges = {4, 8}}};
  bench.workload.services[0].input_size = TraceSize{};
  const auto result = bench.run();
  const auto& small = result.metrics.queue_by_bucket[0][0];
  const auto& large = result.metrics.queue_by_bucket[0][1];
  EXPECT_EQ(small.found().count(), 2u);
  EXPECT_EQ(small.found().max(), 0u);
  EXPECT_EQ(large.found().max(), 2u);
  EXPECT_DOUBLE_EQ(large.found().mean(), 1);
  EXPECT_EQ(result.metrics.queue_by_service[0].found().max(), 3u);
  EXPECT_EQ(large.waiting, 0u);
  EXPECT_DOUBLE_EQ(result.metrics.services[0][0].padding_share(), 0.25);
  EXPECT_DOUBLE_EQ(result.metrics.services[0][1].padding_share(), 0.375);
  EXPECT_EQ(result.metrics.batch_sizes[0][1].count(1), 3u);
}

// Each request runs twice and fails twice: after the first time it waits again, after the second it is gone.
TEST(Simulation, CountsAFailedRequestAsWaitingAgain) {
  auto bench = one_slice(ConstantTraffic{1});
  bench.config.requests_max = 5;
  bench.config.faults.fail_probability = 1;
  bench.config.scheduler.retries_max = 1;
  const auto result = bench.run();
  EXPECT_EQ(result.batches, 10u);
  EXPECT_EQ(result.metrics.queue_by_service[0].waiting, 0u);
  EXPECT_EQ(result.metrics.queue_by_bucket[0][0].waiting, 0u);
}

// Two slices that take turns: ten requests, one each second, five on each, all in 10 ms. The second process of nobody
// is named, and a tenant's queue is its own.
TEST(Simulation, TellsWhatEachSliceAnswered) {
  auto bench = one_slice(ConstantTraffic{1});
  bench.cluster.layouts = {"3g@0 + 3g@4"};
  bench.cluster.latency = {{"3g", {10ms}}};
  bench.config.requests_max = 10;
  bench.config.tenants = 2;
  const auto result = bench.run();
  ASSERT_EQ(result.metrics.places.size(), 2u);
  EXPECT_EQ(result.metrics.places[1].name.substr(0, 2), "3g");
  EXPECT_TRUE(result.metrics.places[1].name.ends_with("@4")) << result.metrics.places[1].name;
  EXPECT_EQ(result.metrics.places[1].compute_slices, 3);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(result.metrics.slices[i].served, 5u);
    EXPECT_EQ(result.metrics.slice_latency[i].max(), 10'000'000u);
  }
  ASSERT_EQ(result.metrics.queue_by_tenant.size(), 2u);
  EXPECT_EQ(result.metrics.queue_by_tenant[0].found().count() + result.metrics.queue_by_tenant[1].found().count(), 10u);
}

// A batch that fails keeps its slice busy and is of no use; reality that is twice as slow is twice as busy and useful.
TEST(Simulation, CountsFailedBatchesAsBusyAndUseless) {
  auto bench = one_slice(ConstantTraffic{1});
  bench.config.requests_max = 10;
  bench.config.noise.factor = 2;
  bench.config.faults.fail_probability = 1;
  bench.config.scheduler.retries_max = 0;
  auto result = bench.run();
  EXPECT_EQ(result.metrics.slices[0].busy_ns, 200'000'000);
  EXPECT_EQ(result.metrics.slices[0].useful_ns, 0);
  EXPECT_EQ(result.metrics.total().failed, 10u);
  bench.config.faults.fail_probability = 0;
  EXPECT_NEAR(bench.run().metrics.slices[0].useful_ns, 200e6, 1);
}

TEST(Simulation, DealsRequestsToTenantsAndAddsThemUp) {
  for (const std::size_t tenants : {1u, 3u}) {
    auto bench = one_slice(PoissonTraffic{50});
    bench.config.requests_max = 3000;
    bench.config.tenants = tenants;
    const auto result = bench.run();
    std::uint64_t sum = 0;
    for (const auto& tenant : result.metrics.tenants) {
      sum += tenant.arrived;
      EXPECT_NEAR(static_cast<double>(tenant.arrived), 3000.0 / static_cast<double>(tenants), 150);
    }
    EXPECT_EQ(sum, 3000u);
  }
}

// Each second 10 requests of 10 ms, all at once: the last of them finds 8 waiting, in every step of the time line.
TEST(Simulation, DrawsATimeLine) {
  TraceTraffic replay;
  for (int s = 0; s < 5; ++s) {
    for (int i = 0; i < 10; ++i) replay.trace.push_back({kTimeZero + s * 1s + 500ms, 1, 1});
  }
  auto bench = one_slice(replay);
  bench.config.duration = 5s;
  bench.config.timeline_steps = 5;
  const auto result = bench.run();
  ASSERT_EQ(result.metrics.timeline[0].size(), 5u);
  for (const auto& step : result.metrics.timeline[0]) {
    EXPECT_EQ(step.arrived, 10u);
    EXPECT_EQ(step.served, 10u);
    EXPECT_EQ(step.queue_max, 8u);
  }
}

TEST(Simulation, LeavesTheWarmUpOutOfItsCounts) {
  auto bench = one_slice(ConstantTraffic{50});
  bench.config.requests_max = 100;
  bench.config.warmup_requests = 40;
  const auto result = bench.run();
  EXPECT_EQ(result.requests, 100u);
  EXPECT_EQ(result.metrics.total().arrived, 60u);
}

TEST(Simulation, StopsWhenAskedTo) {
  auto bench = one_slice(PoissonTraffic{50});
  bench.config.progress = [](double) { return false; };
  EXPECT_TRUE(bench.run().stopped);
}

// One request a second from 1 s to 30 s, and a controller that looks every 10 s: it sees those of 1 to 9 s, of 10 to
// 19 s and of 20 to 29 s, of one size each. An arrival at 10 s comes after the look at 10 s, because looks were
// scheduled first. A request is answered after 10 ms, so all are by then.
TEST(Simulation, TellsAControllerWhatHappenedSinceItLastLooked) {
  auto bench = one_slice(ConstantTraffic{1});
  bench.workload.services[0].input_size = ConstantSize{1};
  bench.config.requests_max = 30;
  std::vector<std::uint64_t> arrived;
  std::vector<std::uint64_t> served;
  std::vector<std::uint64_t> of_size_one;
  bench.config.controller.interval = 10s;
  bench.config.controller.decide = [&](const Observation& seen) -> std::optional<sched::Deployment> {
    arrived.push_back(seen.services[0].arrived);
    served.push_back(seen.services[0].served);
    of_size_one.push_back(seen.services[0].sizes.contains(1) ? seen.services[0].sizes.at(1) : 0);
    return std::nullopt;
  };
  const auto result = bench.run();
  EXPECT_EQ(arrived, (std::vector<std::uint64_t>{9, 10, 10}));
  EXPECT_EQ(arrived, served);
  EXPECT_EQ(arrived, of_size_one);
  ASSERT_EQ(result.fleet_use.size(), 1u);
  EXPECT_EQ(result.fleet_use[0].devices, 1u);
}

// The controller asks at 10 s for a second device, which takes 3 s to cut, and at 20 s for one again. The second device
// counts from when it is asked for, at 10 s, until it is cut back, at 20 s plus 3 s. No request is lost.
TEST(Simulation, CountsDevicesThatAControllerAsksFor) {
  auto bench = one_slice(ConstantTraffic{2});
  bench.config.duration = 40s;
  int looks = 0;
  bench.config.controller.interval = 10s;
  bench.config.controller.decide = [&](const Observation&) -> std::optional<sched::Deployment> {
    ++looks;
    if (looks == 1) return deployment_of(bench.cluster, {"7g@0", "7g@0"});
    if (looks == 2) return deployment_of(bench.cluster, {"7g@0"});
    return std::nullopt;
  };
  bench.config.reshape_time = [](const sched::DeployedDevice&, const Layout&, TimePoint) { return Duration(3s); };
  const auto result = bench.run();
  EXPECT_EQ(result.metrics.total().resolved(), result.requests);
  EXPECT_EQ(result.metrics.total().served, result.requests);
  EXPECT_EQ(result.reshapes, 2u);
  double device_seconds = 0;
  for (std::size_t i = 0; i < result.fleet_use.size(); ++i) {
    const double until = i + 1 < result.fleet_use.size() ? to_seconds(result.fleet_use[i + 1].at) : 40;
    device_seconds += static_cast<double>(result.fleet_use[i].devices) * (until - to_seconds(result.fleet_use[i].at));
  }
  EXPECT_NEAR(device_seconds, 40 + 10, 3.001);
  EXPECT_EQ(result.fleet_use.back().devices, 1u);
}

// Lends what is idle at two seconds out of four, a slice of each pool, and recalls it at the third.
class SometimesLessee final : public Lessee {
 public:
  void on_start(sched::Scheduler& scheduler) override { scheduler_ = &scheduler; }
  void on_arrival(ServiceId) override {}
  void on_tick(TimePoint now, bool traffic) override {
    const auto second = now.time_since_epoch() / 1s;
    for (std::uint32_t p = 0; second % 4 < 2 && traffic && p < scheduler_->state().deployment.pools.size(); ++p) {
      if (const auto slice = scheduler_->lend_idle(sched::PoolId(p))) lent_.push_back(*slice);
    }
    if (second % 4 == 2 || !traffic) {
      for (const SliceId slice : lent_) scheduler_->recall(slice);
      lent_.clear();
    }
  }
  bool busy() const override {
    return std::ranges::any_of(scheduler_->state().slices, [](const auto& slice) {
      return slice.status == sched::SliceStatus::lent || slice.status == sched::SliceStatus::recalling;
    });
  }

 private:
  sched::Scheduler* scheduler_ = nullptr;
  std::vector<SliceId> lent_;
};

// Faults, a change of plan, rows and slices on loan: what the recorder wrote decides the same again, and reading it
// gives the log of the run.
TEST(Simulation, RecordsARunThatIsReplayedByteForByte) {
  auto bench = one_slice(PoissonTraffic{20});
  bench.cluster.layouts = {"7g@0", "7g@0"};
  bench.config.duration = 30s;
  bench.config.faults = {.slow_probability = 0.05, .fail_probability = 0.05, .stuck_probability = 0.001};
  bench.config.faults.slice_lost_mean_s = 5;
  bench.config.background.push_back({ServiceId(0), 1});
  bench.cluster.latency["4g"] = bench.cluster.latency["3g"] = {12ms};
  bench.config.plan_changes.push_back({TimePoint(10s), deployment_of(bench.cluster, {"7g@0", "4g@0 + 3g@4"})});
  const auto plain = [&] {
    SometimesLessee lessee;
    bench.config.lessee = &lessee;
    return bench.run();
  };
  const std::uint64_t digest = plain().digest;
  std::string recording;
  bench.config.recording = [&](std::string_view line) { recording += line; };
  bench.config.log_decisions = true;
  const SimulationResult recorded = plain();
  EXPECT_EQ(recorded.digest, digest);
  EXPECT_GT(recorded.leases, 2u);
  const auto report = sched::replay("r", recording);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->same) << report->difference_line << ": " << report->recorded << " / " << report->replayed;
  EXPECT_TRUE(report->complete);
  EXPECT_GT(report->events, 3000u);
  std::vector<std::string> read;
  sched::DecisionLog log;
  std::istringstream lines(recording);
  for (std::string line; std::getline(lines, line);) {
    if (auto text = log.read(line)) read.push_back(std::move(*text));
  }
  EXPECT_EQ(read, recorded.decisions);
}

}  // namespace
}  // namespace tangram::sim

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "core/geometry.h"
#include "lab/certify.h"
#include "plan/shared_slices.h"
#include "sim/simulation.h"

namespace tangram::lab {
namespace {

using namespace std::chrono_literals;

// A run of `fast` takes 5 ms for each sample, one of `slow` 60 ms. To load `fast` takes 50 ms; `slow` was never timed.
class TwoSpeeds final : public LatencyModel {
 public:
  std::optional<double> weights_mib(std::string_view, std::string_view, std::string_view) const override {
    return 1000;
  }
  std::optional<Duration> load_time(std::string_view, std::string_view, std::string_view model) const override {
    return model == "fast" ? std::optional<Duration>(50ms) : std::nullopt;
  }
  std::optional<Prediction> predict(const RunPoint& point) const override {
    const double ms = (point.model == "slow" ? 60 : 5) * static_cast<double>(point.batch);
    return Prediction{from_milliseconds(ms), from_milliseconds(ms)};
  }
};

Service service_of(const std::string& name, const std::string& model, double rate_per_s, Duration slo) {
  Service service;
  service.name = name;
  service.model = model;
  service.weights = name;
  service.slo = {slo, 99};
  service.traffic = PoissonTraffic{rate_per_s};
  return service;
}

plan::SharedGroup shared(const std::vector<Service>& services, int count = 1, std::int64_t batch = 1) {
  plan::SharedGroup group{"a100-80gb", "1g.10gb", 1, {}, count};
  for (const auto& service : services) group.replicas.push_back({.service = service.name, .buckets = {{1, batch}}});
  return group;
}

std::vector<plan::Verdict> ask(const std::vector<Service>& services, const plan::SharedGroup& group,
                               std::uint64_t seed = 1) {
  const TwoSpeeds model;
  SimulatedCertifier certifier(model, {.seed = seed});
  return certifier.certify_together(services, {&group, 1}, true);
}

// Two services of 5 ms keep the slice busy for 20 % of the time: hardly a request waits 95 ms.
TEST(CertifyTogether, HoldsWhereNeighboursLeaveTime) {
  const std::vector<Service> services{service_of("a", "fast", 20, 100ms), service_of("b", "fast", 20, 100ms)};
  const auto verdicts = ask(services, shared(services));
  ASSERT_EQ(verdicts.size(), 2U);
  EXPECT_TRUE(verdicts[0].holds && verdicts[1].holds);
}

// The neighbour runs for 60 ms, twice a second: 12 % of the requests of a service that has 20 ms meet such a run, and
// most of them are late. The neighbour itself, which has a second, is in time.
TEST(CertifyTogether, SeesThatALongForeignRunBlocksAShortPromise) {
  const std::vector<Service> services{service_of("short", "fast", 20, 20ms), service_of("long", "slow", 2, 1s)};
  const auto verdicts = ask(services, shared(services));
  EXPECT_FALSE(verdicts[0].holds);
  EXPECT_LT(verdicts[0].attainment, 0.95);
  EXPECT_TRUE(verdicts[1].holds);
}

// A run of 60 ms makes requests late that come within its first 25 ms and have 40 ms, of which they run for 5. At one
// such run in ten seconds that is 0.25 % of them. The same neighbour with bursts of five runs a second makes 12 % late
// while it is busy, and that is what it is judged by.
TEST(CertifyTogether, AllowsForNeighboursAtTheirBusiest) {
  std::vector<Service> services{service_of("steady", "fast", 20, 40ms), service_of("bursts", "slow", 0.1, 5s)};
  EXPECT_TRUE(ask(services, shared(services))[0].holds);
  services[1].traffic = BurstTraffic{.rate_per_s = 0.1, .burst_factor = 100, .burst_mean_s = 60, .calm_mean_s = 6000};
  const auto verdicts = ask(services, shared(services));
  EXPECT_FALSE(verdicts[0].holds);
  EXPECT_TRUE(verdicts[1].holds);
}

// Four services of 60/s that run the same copy fill batches of four together. The slice runs 200 samples a second one
// by one and as many in batches here, so the batch does not matter to the load but all are judged as one: their shares
// are equal to the last digit.
TEST(CertifyTogether, JudgesServicesOfOneCopyAsOne) {
  std::vector<Service> services;
  for (const char* name : {"a", "b", "c"}) services.push_back(service_of(name, "fast", 20, 100ms));
  for (auto& service : services) service.weights = "one";
  const auto verdicts = ask(services, shared(services));
  EXPECT_TRUE(verdicts[0].holds);
  EXPECT_EQ(verdicts[0].attainment, verdicts[1].attainment);
  EXPECT_EQ(verdicts[0].attainment, verdicts[2].attainment);
}

// A request every second, which takes 50 ms to load and 5 ms to run: within 200 ms it is in time, within 50 ms it never
// is. Its neighbour has 80 ms and can wait for it.
TEST(CertifyTogether, CountsTheLoadOfAModelOnDemand) {
  std::vector<Service> services{service_of("steady", "fast", 20, 80ms), service_of("seldom", "fast", 1, 200ms)};
  auto group = shared(services);
  group.replicas[1].load = ReplicaLoad::on_demand;
  const auto verdicts = ask(services, group);
  EXPECT_TRUE(verdicts[0].holds);
  EXPECT_TRUE(verdicts[1].holds);
  EXPECT_GT(to_milliseconds(verdicts[1].latency), 50);
  services[1].slo.latency = 50ms;
  const auto short_of_time = ask(services, group)[1];
  EXPECT_FALSE(short_of_time.holds);
  EXPECT_LT(short_of_time.attainment, 0.1);
}

// Thirty fine-tunes of one network, alike in all but their weights, each loaded on demand. A request comes every 30 ms
// and nearly always for weights that are not there: it takes 50 ms to load and 5 ms to run, so the slice cannot keep
// up. Taken for one copy they would be loaded once and run in 5 ms.
TEST(CertifyTogether, TellsFineTunesWithEqualTrafficApart) {
  std::vector<Service> services;
  for (int i = 0; i < 30; ++i) services.push_back(service_of(fmt::format("tune{}", i), "fast", 1.1, 400ms));
  auto group = shared(services, 1, 8);
  for (auto& replica : group.replicas) replica.load = ReplicaLoad::on_demand;
  const auto verdicts = ask(services, group);
  EXPECT_FALSE(verdicts[0].holds);
  EXPECT_LT(verdicts[0].attainment, 0.9);
}

// Two services send once a second and in step: 60 ms of one, then 5 ms of the other, which has 30 ms and is always late.
// Their neighbour sends so much more that a seldom service of random arrivals would be judged at 1.02/s; at such a rate
// the two would meet in one second out of ten, and three quarters in time would hold.
TEST(CertifyTogether, LeavesConstantRatesInStep) {
  std::vector<Service> services{service_of("busy", "fast", 100, 1s), service_of("long", "slow", 1, 1s),
                                service_of("short", "fast", 1, 30ms)};
  services[1].traffic = services[2].traffic = ConstantTraffic{1};
  services[2].slo.percentile = 75;
  const auto verdicts = ask(services, shared(services));
  EXPECT_TRUE(verdicts[0].holds);
  EXPECT_FALSE(verdicts[2].holds);
  EXPECT_LT(verdicts[2].attainment, 0.2);
}

// Two requests a second load for 50 ms each and keep the slice for 11 % of the time. Of the neighbour's requests 4 %
// come while more than the 35 ms are left that they can wait.
TEST(CertifyTogether, SeesThatALoadBlocksTheNeighbours) {
  const std::vector<Service> services{service_of("steady", "fast", 20, 40ms), service_of("often", "fast", 2, 1s)};
  auto group = shared(services);
  EXPECT_TRUE(ask(services, group)[0].holds);
  group.replicas[1].load = ReplicaLoad::on_demand;
  const auto verdicts = ask(services, group);
  EXPECT_FALSE(verdicts[0].holds);
  EXPECT_TRUE(verdicts[1].holds);
}

TEST(CertifyTogether, PromisesNothingOfALoadThatWasNeverTimed) {
  const std::vector<Service> services{service_of("steady", "fast", 1, 1s), service_of("seldom", "slow", 0.1, 10s)};
  auto group = shared(services);
  EXPECT_TRUE(ask(services, group)[1].holds);
  group.replicas[1].load = ReplicaLoad::on_demand;
  for (const auto& verdict : ask(services, group)) EXPECT_FALSE(verdict.holds);
}

// Requests that come at random, by the seed; `at_once` of them together.
TraceTraffic recorded(double rate_per_s, double length_s, std::uint64_t seed, int at_once = 1) {
  Rng rng(seed);
  TraceTraffic replay;
  for (double at = 0; at < length_s; at += rng.exponential(at_once / rate_per_s)) {
    for (int i = 0; i < at_once; ++i) replay.trace.push_back({kTimeZero + from_seconds(at), 1, 1});
  }
  return replay;
}

// A trace of single requests is a neighbour like any other. Twenty at once keep a slice busy for 100 ms, which its
// neighbour with 50 ms does not survive: nothing is promised, also where the mean is low.
TEST(CertifyTogether, JudgesATraceUnlessItsRequestsComeAtOnce) {
  std::vector<Service> services{service_of("a", "fast", 20, 50ms), service_of("trace", "fast", 0, 1s)};
  services[1].traffic = recorded(10, 3600, 5);
  for (const auto& verdict : ask(services, shared(services))) EXPECT_TRUE(verdict.holds) << verdict.attainment;
  services[1].traffic = recorded(1, 3600, 5, 20);
  for (const auto& verdict : ask(services, shared(services))) EXPECT_FALSE(verdict.holds);
}

// What was certified holds in a simulation of the whole traffic with other random numbers, for steady services, for one
// with a day and for a trace.
TEST(CertifyTogether, AgreesWithASimulationOfTheWholeTraffic) {
  std::vector<Service> services{service_of("a", "fast", 30, 50ms), service_of("b", "fast", 20, 80ms),
                                service_of("day", "fast", 15, 60ms), service_of("trace", "fast", 0, 60ms)};
  services[2].traffic = DiurnalTraffic{.rate_per_s = 15, .amplitude = 0.8, .period_s = 3600, .peak_at_s = 1800};
  services[3].traffic = recorded(6, 7200, 9);
  const auto group = shared(services);
  for (const auto& verdict : ask(services, group)) ASSERT_TRUE(verdict.holds);
  Plan plan;
  const Geometry& geometry = *find_geometry("a100-80gb");
  const Slice slice{static_cast<std::uint16_t>(*find_profile(geometry, "1g.10gb")), 0};
  plan.devices.push_back({"g-0", geometry.type, geometry, {{slice, group.replicas}}});
  const TwoSpeeds model;
  const Workload workload{services};
  sim::SimulationConfig config;
  config.seed = 77;
  config.duration = 2h;
  config.noise.spread = 0.05;
  const auto result = sim::simulate(*sched::compile(plan, workload, model), workload, config);
  for (std::size_t s = 0; s < services.size(); ++s) {
    std::uint64_t arrived = 0;
    std::uint64_t served = 0;
    for (const auto& tally : result.metrics.services[s]) {
      arrived += tally.arrived;
      served += tally.served;
    }
    EXPECT_GE(static_cast<double>(served), 0.99 * static_cast<double>(arrived)) << services[s].name;
  }
}

// Nine services whose promises leave two to six times their run, planned with one seed. With three others, no promise
// of the plan is below its percentile.
TEST(CertifyTogether, CertificatesOfASearchHoldWithOtherSeeds) {
  const TwoSpeeds model;
  plan::Problem problem;
  DeviceGroup group;
  group.name = group.type = "a100-80gb";
  group.profiles = ProfileSet::base;
  problem.fleet.groups = {group};
  for (int i = 0; i < 9; ++i) {
    const bool fast = i % 3 != 0;
    problem.workload.services.push_back(service_of("s" + std::to_string(i), fast ? "fast" : "slow",
                                                   (fast ? 30.0 : 2.0) / (1 + i), (fast ? 15ms : 150ms) * (1 + i % 2)));
  }
  problem.latency = &model;
  problem.options.rule = plan::Rule::certified;
  problem.options.sharing = plan::Sharing::all;
  SimulatedCertifier certifier(model, {.seed = 1});
  problem.certifier = &certifier;
  const auto answer = plan::find_planner("elastic")->make()->plan(problem);
  ASSERT_EQ(answer.status, plan::PlanStatus::planned) << answer.reason;
  ASSERT_TRUE(answer.price_alone && answer.price < *answer.price_alone);
  for (const std::uint64_t seed : {101, 102, 103}) {
    SimulatedCertifier other(model, {.seed = seed, .confirmations = 1});
    for (const auto& set : plan::shared_sets(answer.plan)) {
      const auto verdicts = plan::certify_set(other, problem.workload, set, true);
      for (std::size_t i = 0; i < verdicts.size(); ++i) {
        EXPECT_GE(verdicts[i].attainment, 0.99) << set.services[i] << ", seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace tangram::lab

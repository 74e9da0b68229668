#include "lab/capacity.h"

#include <gtest/gtest.h>

namespace tangram::lab {
namespace {

// One slice that needs exactly 10 ms for any request, which arrive with equal gaps.
Scenario metronome(const std::string& slo_ms) {
  const auto none = [](const std::string&) -> Result<std::string> { return Error{ErrorCode::not_found, "none"}; };
  auto scenario = parse_scenario(
      {"s.yaml",
       "services: [{name: a, model: net, slo: {latency_ms: " + slo_ms +
           "}, traffic: {constant: {rate_per_s: 20}}}]\n"
           "plan: {devices: [{type: a30, layout: 1g.6gb@0, replicas: [{service: a, buckets: [{batch_size: 1}]}]}]}\n"
           "latency: {models: [{model: net, launch_ms: 10, sample_ms: 1, p99_factor: 1}]}\n"
           "duration_s: 100\nscheduler: {policy: fifs}\n"},
      none);
  EXPECT_TRUE(scenario) << scenario.error().message;
  return std::move(*scenario);
}

CapacityResult search(const Scenario& scenario, const CapacityOptions& options,
                      const std::function<bool(int)>& trial_done = {}) {
  auto result = find_capacity(scenario, options, trial_done);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(*result);
}

// The slice takes a request every 10 ms: 100 a second, five times the scenario's rate, and not one more: a queue that
// grows breaks any promise.
TEST(Capacity, OfAMetronomeIsItsServiceRate) {
  const auto result = search(metronome("15"), {.policy = "fifs", .percentile = {}, .tolerance = 0.001});
  EXPECT_NEAR(result.rate_scale, 5, 0.03);
  EXPECT_NEAR(result.rate_per_s, 100, 1);
  EXPECT_EQ(result.binding, "a");
  EXPECT_GT(result.infeasible_scale, result.rate_scale);
  ASSERT_EQ(result.services.size(), 1U);
  EXPECT_GE(result.services[0].attainment, 0.99);
}

// No load is light enough for a promise shorter than a run.
TEST(Capacity, IsZeroWhereNoLoadIsLightEnough) {
  const auto result = search(metronome("5"), {.policy = "fifs", .percentile = {}, .tolerance = 0.01});
  EXPECT_EQ(result.rate_scale, 0);
  EXPECT_EQ(result.binding, "a");
  EXPECT_TRUE(result.services.empty());
}

// 20 a second for 100 s are 2,000 requests. With all of them in the warm-up there is nothing that could break a
// promise, so there is no answer either; with one counted there is.
TEST(Capacity, IsAnErrorWhereNothingIsCounted) {
  Scenario scenario = metronome("15");
  const CapacityOptions options{.policy = "fifs", .percentile = {}, .tolerance = 0.1};
  scenario.config.warmup_requests = 2000;
  const auto result = find_capacity(scenario, options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "none of the 2000 requests of the run is counted, because warmup_requests is 2000");
  scenario.config.warmup_requests = 1999;
  EXPECT_TRUE(find_capacity(scenario, options));
}

TEST(Capacity, OfAClosedLoopNeedsThinkTime) {
  Scenario scenario = metronome("15");
  scenario.workload.services[0].traffic = ClosedLoopTraffic{.clients = 1, .think_mean_s = 0};
  const CapacityOptions options{.policy = "fifs", .percentile = {}, .tolerance = 0.1};
  const auto result = find_capacity(scenario, options);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("no rate to scale"), std::string::npos);
  scenario.workload.services[0].traffic = ClosedLoopTraffic{.clients = 1, .think_mean_s = 0.1};
  EXPECT_TRUE(find_capacity(scenario, options));
}

// Two services share the slice, and the plan has room for 20 requests/s of each. The search asks what the slice can do,
// so the limits rise with the load: 100 requests/s of both together, two and a half times the scenario's 40.
TEST(Capacity, IsNotCappedByTheLimitsOfServicesThatShareASlice) {
  Scenario scenario = metronome("30");
  Service other = scenario.workload.services[0];
  other.name = "b";
  other.weights = "own";
  scenario.workload.services.push_back(other);
  auto& replicas = scenario.plan.devices[0].slices[0].replicas;
  replicas.push_back(replicas[0]);
  replicas[1].service = "b";
  for (auto& replica : replicas) replica.rate_max_per_s = 20;
  auto deployment = sched::compile(scenario.plan, scenario.workload, *scenario.latency);
  ASSERT_TRUE(deployment);
  scenario.deployment = std::move(*deployment);
  const auto result = search(scenario, {.policy = "fifs", .percentile = {}, .tolerance = 0.01});
  EXPECT_NEAR(result.rate_per_s, 100, 2);
}

TEST(Capacity, CanBeGivenUp) {
  const auto result = search(metronome("15"), {.policy = "fifs", .percentile = {}, .tolerance = 1e-6},
                             [](int trials) { return trials < 2; });
  EXPECT_EQ(result.trials, 2);
}

}  // namespace
}  // namespace tangram::lab

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

// The slice takes a request every 10 ms: 100 a second, five times the scenario's rate, and not one more: a queue that
// grows breaks any promise.
TEST(Capacity, OfAMetronomeIsItsServiceRate) {
  const auto result = find_capacity(metronome("15"), {.policy = "fifs", .percentile = {}, .tolerance = 0.001});
  EXPECT_NEAR(result.rate_scale, 5, 0.03);
  EXPECT_NEAR(result.rate_per_s, 100, 1);
  EXPECT_EQ(result.binding, "a");
  EXPECT_GT(result.infeasible_scale, result.rate_scale);
  ASSERT_EQ(result.services.size(), 1U);
  EXPECT_GE(result.services[0].attainment, 0.99);
}

// No load is light enough for a promise shorter than a run.
TEST(Capacity, IsZeroWhereNoLoadIsLightEnough) {
  const auto result = find_capacity(metronome("5"), {.policy = "fifs", .percentile = {}, .tolerance = 0.01});
  EXPECT_EQ(result.rate_scale, 0);
  EXPECT_EQ(result.binding, "a");
  EXPECT_TRUE(result.services.empty());
}

TEST(Capacity, CanBeGivenUp) {
  const auto result = find_capacity(metronome("15"), {.policy = "fifs", .percentile = {}, .tolerance = 1e-6},
                                    [](int trials) { return trials < 2; });
  EXPECT_EQ(result.trials, 2);
}

}  // namespace
}  // namespace tangram::lab

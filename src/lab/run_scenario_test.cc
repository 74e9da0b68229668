#include "lab/run_scenario.h"

#include <gtest/gtest.h>

namespace tangram::lab {
namespace {

// Ten requests a second on one slice; `end` says when it ends.
Scenario ten_a_second(const std::string& end) {
  const auto none = [](const std::string&) -> Result<std::string> { return Error{ErrorCode::not_found, "none"}; };
  auto scenario =
      parse_scenario({"s.yaml",
                      "name: small\nservices:\n"
                      "  - {name: a, model: net, slo: {latency_ms: 50}, traffic: {constant: {rate_per_s: 10}}}\n"
                      "plan: {devices: [{type: a30, layout: 1g.6gb@0, replicas: [\n"
                      "  {service: a, slices: 1g.6gb@0, buckets: [{size_max: 1, batch_size: 1}]}]}]}\n"
                      "latency: {models: [{model: net, launch_ms: 10, sample_ms: 0.1, p99_factor: 1}]}\n"
                      "scheduler: {policy: fifs}\n" +
                          end},
                     none);
  EXPECT_TRUE(scenario) << scenario.error().message;
  return std::move(*scenario);
}

TEST(RunScenario, RecordsOnlyWhatIsAskedFor) {
  const Scenario scenario = ten_a_second("duration_s: 5\n");
  const auto plain = run_scenario(scenario, scenario.config);
  EXPECT_EQ(plain.policy, "fifs");
  EXPECT_EQ(plain.training, nullptr);
  EXPECT_TRUE(plain.result.metrics.timeline.empty());
  EXPECT_TRUE(plain.result.metrics.batches.empty());
  const auto whole = run_scenario(scenario, scenario.config, {.timeline_steps = 5, .batches_max = 3});
  EXPECT_EQ(whole.result.metrics.timeline[0].size(), 5U);
  EXPECT_EQ(whole.result.metrics.batches.size(), 3U);
  EXPECT_EQ(whole.result.digest, plain.result.digest);
}

// Twenty requests at ten a second take about two seconds, which only a first run can tell. The time line of the second
// covers them: 20 arrivals in its steps.
TEST(RunScenario, FindsTheEndOfARunByNumberBeforeItDrawsATimeLine) {
  const Scenario scenario = ten_a_second("requests: 20\n");
  const auto run = run_scenario(scenario, scenario.config, {.timeline_steps = 4});
  ASSERT_EQ(run.result.metrics.timeline[0].size(), 4U);
  double arrived = 0;
  for (const auto& step : run.result.metrics.timeline[0]) arrived += step.arrived;
  EXPECT_EQ(arrived, 20);
  EXPECT_EQ(run.result.requests, run_scenario(scenario, scenario.config).result.requests);
}

}  // namespace
}  // namespace tangram::lab

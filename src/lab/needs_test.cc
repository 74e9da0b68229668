#include "lab/needs.h"

#include <gtest/gtest.h>

#include "lab/scenario.h"

namespace tangram::lab {
namespace {

// Two services with weights of their own on the slices of an A30, 10 ms for each request: a slice runs 100 requests/s.
Scenario sharing_scenario(const std::string& replicas_of_b) {
  const auto none = [](const std::string&) -> Result<std::string> { return Error{ErrorCode::not_found, "none"}; };
  auto scenario =
      parse_scenario({"s.yaml",
                      "services:\n"
                      "  - {name: a, model: net, slo: {latency_ms: 100}, traffic: {rate_per_s: 60}}\n"
                      "  - {name: b, model: net, weights: b, slo: {latency_ms: 100}, traffic: {rate_per_s: 60}}\n"
                      "plan: {devices: [{type: a30, layout: 1g.6gb@0 + 1g.6gb@1 + 1g.6gb@2, replicas: ["
                      "{service: a, buckets: [{batch_size: 1}]}, " +
                          replicas_of_b +
                          "]}]}\n"
                          "latency: {models: [{model: net, launch_ms: 10, sample_ms: 1, p99_factor: 1}]}\n"
                          "duration_s: 100\n"},
                     none);
  EXPECT_TRUE(scenario) << scenario.error().message;
  return std::move(*scenario);
}

std::vector<sched::ServiceNeeds> needs_in(const Scenario& scenario) {
  NeedsOptions options;
  options.levels = 4;
  return certified_needs(scenario.plan, scenario.workload, scenario.deployment, *scenario.latency, options);
}

// Together they send 120 requests/s at most, which one slice of 100 cannot answer and two can. At a quarter of
// the rates, 30 requests/s, one slice suffices.
TEST(CertifiedNeeds, LendSlicesOfServicesThatShareThem) {
  const auto needs = needs_in(sharing_scenario("{service: b, buckets: [{batch_size: 1}]}"));
  ASSERT_EQ(needs.size(), 2u);
  ASSERT_EQ(needs[0].needs.size(), 4u);
  EXPECT_EQ(needs[0].needs.front().slices, 1u);
  EXPECT_EQ(needs[0].needs.back().slices, 2u);
  EXPECT_DOUBLE_EQ(needs[0].needs.front().rate_per_s, 15);
  // Both go by the same table, in the same order of slices.
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(needs[0].needs[i].slices, needs[1].needs[i].slices);
  EXPECT_EQ(needs[0].slices, needs[1].slices);
  ASSERT_EQ(needs[1].sharers.size(), 2u);
  EXPECT_GT(needs[1].sharers[0].request_s, 0);
}

// b is on one of the three slices: there is no order of slices for both, so nothing is lent.
TEST(CertifiedNeeds, KeepEverythingWhereServicesShareOnlySomeSlices) {
  const auto needs = needs_in(sharing_scenario("{service: b, slices: 1g.6gb@0, buckets: [{batch_size: 1}]}"));
  EXPECT_TRUE(needs[0].needs.empty());
  EXPECT_TRUE(needs[1].needs.empty());
}

}  // namespace
}  // namespace tangram::lab

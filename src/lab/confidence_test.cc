#include "lab/confidence.h"

#include <gtest/gtest.h>

#include "learn/fit.h"
#include "learn/test_network.h"

namespace tangram::lab {
namespace {

plan::ServicePlan served_by(const std::string& service, std::vector<PlannedBucket> buckets) {
  plan::ReplicaGroup group;
  group.device_type = "a100-80gb";
  group.mig_profile = "3g.40gb";
  group.replica.service = service;
  group.replica.buckets = std::move(buckets);
  plan::ServicePlan plan;
  plan.service = service;
  plan.groups.push_back(std::move(group));
  return plan;
}

// The test network is measured at powers of two. Batch 8 is known exactly, batch 24 is predicted: its interval is the
// wider one.
TEST(Confidence, NamesTheRunWithTheWidestInterval) {
  const auto model = *learn::fit(learn::TestNetwork{}.table(), {}, {});
  plan::Problem problem;
  problem.workload.services.push_back({.name = "known", .model = "net", .slo = {}});
  problem.workload.services.push_back({.name = "strange", .model = "another", .slo = {}});
  plan::PlanAnswer answer;
  answer.services.push_back(served_by("known", {{.size_max = 1, .batch_size = 8}, {.size_max = 1, .batch_size = 24}}));
  answer.services.push_back(served_by("strange", {{.size_max = 1, .batch_size = 8}}));
  const auto list = confidence_of(problem, answer, model);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].where, "3g.40gb of a100-80gb, batch 24, size 1");
  EXPECT_FALSE(list[0].measured);
  EXPECT_EQ(list[0].runs, 2U);
  EXPECT_EQ(list[0].runs_measured, 1U);
  EXPECT_LE(list[0].low_ms, list[0].mean_ms);
  EXPECT_EQ(list[1].runs, 0U);
}

}  // namespace
}  // namespace tangram::lab

#include "plan/detail/share_queues.h"

#include <gtest/gtest.h>

#include "plan/test_sharing.h"

namespace tangram::plan::detail {
namespace {

using namespace std::chrono_literals;

// Two services of one copy, one of which has twice the time of the other.
Problem strict_and_loose(const LinearModel& model) {
  std::vector<Service> services{service_of("strict", "net", 1), service_of("loose", "net", 1)};
  for (auto& service : services) service.weights = "one";
  services[0].slo.latency = 50ms;
  services[1].slo.latency = 100ms;
  services[1].slo.percentile = 90;
  return problem_of(model, std::move(services));
}

// They fill batches together, which are as short as 50 ms want. A bound allows each what the loosest has, since a plan
// may also keep them apart.
TEST(ShareQueues, BoundsAllowTheLoosestPromiseOfAQueue) {
  LinearModel model;
  model.runs["net"] = {.ms = 10, .weights_mib = 100};
  const Problem problem = strict_and_loose(model);
  const QueueProblem queues = queue_problem(problem);
  ASSERT_EQ(queues.queues.size(), 1U);
  EXPECT_TRUE(mixes_promises(problem, queues));
  EXPECT_EQ(queues.problem.workload.services[0].slo.latency, 50ms);
  const QueueProblem loose = with_loosest_promises(problem, queues);
  EXPECT_EQ(loose.problem.workload.services[0].slo.latency, 100ms);
  EXPECT_EQ(loose.problem.workload.services[0].slo.percentile, 90);
}

TEST(ShareQueues, KeepDifferentPromisesApartWhereAsked) {
  LinearModel model;
  model.runs["net"] = {.ms = 10, .weights_mib = 100};
  Problem problem = strict_and_loose(model);
  problem.options.promises_apart = true;
  EXPECT_EQ(queue_problem(problem).queues.size(), 2U);
  problem.workload.services[1].slo = problem.workload.services[0].slo;
  const QueueProblem equal = queue_problem(problem);
  EXPECT_EQ(equal.queues.size(), 1U);
  EXPECT_FALSE(mixes_promises(problem, equal));
}

}  // namespace
}  // namespace tangram::plan::detail

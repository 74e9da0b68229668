#include "plan/work_bound.h"

#include <gtest/gtest.h>

#include "plan/test_problems.h"

namespace tangram::plan {
namespace {

// Of FormulaModel, a batch of b takes 2 + b / c ms on c compute slices. Within 100 ms a batch of 64 is the best: on 7g
// it takes 11.1 ms (5,744 requests/s), on a 1g 66 ms (970 requests/s, seven of them 6,788). So seven 1g are the best
// cut, and a service of 1,000 requests/s has the factor 6.79 on one device, 1/0.9 times that if a tenth may be lost.
TEST(WorkBound, IsTheBestCutWithFullBatches) {
  const FormulaModel model;
  Problem problem;
  problem.fleet.groups = {group_of("a100-40gb")};
  problem.workload.services = {planned_service("a", 1000)};
  problem.latency = &model;
  problem.options.rule = Rule::no_waiting;
  const Stock stock = take_stock(problem);
  const double best = 7 * 64 / 0.066 / 1000;
  EXPECT_NEAR(work_bound(problem, stock, 1, 0), best, 0.01);
  EXPECT_NEAR(work_bound(problem, stock, 3, 0), 3 * best, 0.03);
  EXPECT_NEAR(work_bound(problem, stock, 1, 0.1), best / 0.9, 0.01);
  problem.workload.services.push_back(planned_service("b", 1000));
  EXPECT_NEAR(work_bound(problem, take_stock(problem), 1, 0), best / 2, 0.01);
}

// The most expensive requests are lost first: of sizes 1 and 8, half each, size 8 takes 2 + 8 b ms on a 1g, so that a
// batch of 12 takes 98 ms (122/s). Without the half that is large, what is left is size 1 at 970/s on each of seven
// slices.
TEST(WorkBound, LosesTheLargestRequestsFirst) {
  const FormulaModel model;
  Problem problem;
  problem.fleet.groups = {group_of("a100-40gb")};
  problem.workload.services = {planned_service("a", 1000)};
  problem.workload.services[0].input_size = HistogramSize{.file = {}, .bins = {{1, 1}, {8, 1}}};
  problem.latency = &model;
  problem.options.rule = Rule::no_waiting;
  const Stock stock = take_stock(problem);
  EXPECT_NEAR(work_bound(problem, stock, 1, 0.5), 2 * 7 * 64 / 0.066 / 1000, 0.02);
  EXPECT_LT(work_bound(problem, stock, 1, 0), work_bound(problem, stock, 1, 0.5) / 3);
}

TEST(WorkBound, IsZeroIfAServiceFitsNowhere) {
  const FormulaModel model;
  Problem problem;
  problem.fleet.groups = {group_of("a100-40gb")};
  problem.workload.services = {planned_service("a", 1000), planned_service("nowhere", 1)};
  problem.latency = &model;
  EXPECT_NEAR(work_bound(problem, take_stock(problem), 1, 0), 0, 1e-9);
}

}  // namespace
}  // namespace tangram::plan

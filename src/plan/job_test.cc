// Services with a job.

#include <gtest/gtest.h>

#include "plan/explain.h"
#include "plan/test_problems.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

Service job_of(const std::string& name, std::int64_t rows, Duration deadline) {
  Service service = planned_service(name, 0, deadline);
  service.job = Job{rows, deadline};
  service.traffic = ConstantTraffic{service.job->rows_per_s()};
  return service;
}

// 36 million rows in an hour are 10,000/s, planned as 10,526/s. A batch of 64 takes 66 ms on 1g, 970/s, and seven of
// them 6,788/s, which no other cut passes by as much: two devices. In two hours one device does.
TEST(Jobs, AreSizedByTheirRowsAndTheirDeadlineInFullBatches) {
  const FormulaModel model;
  for (const Rule rule : {Rule::half, Rule::no_waiting}) {
    Problem problem = problem_of(model, {job_of("embed", 36'000'000, 1h)});
    problem.options.rule = rule;
    const PlanAnswer answer = plan_by("elastic", problem);
    ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
    EXPECT_EQ(answer.devices, 2);
    EXPECT_EQ(problems_of(problem, answer), "");
    for (const auto& group : answer.services[0].groups) EXPECT_EQ(group.replica.buckets[0].batch_size, 64);
    problem = problem_of(model, {job_of("embed", 36'000'000, 2h)});
    EXPECT_EQ(plan_by("elastic", problem).devices, 1);
  }
}

// Never asks: it would be a mistake to simulate a job.
class NoCertifier final : public Certifier {
 public:
  Verdict certify(const Service& service, std::span<const ReplicaGroup>, bool) override {
    ADD_FAILURE() << service.name;
    return {};
  }
};

// 3.6 million rows in an hour are 1,000/s, planned as 1,053/s. The verdict is when the job ends, at 0.95 of the
// deadline or before.
TEST(Jobs, AreCertifiedByTheirThroughput) {
  const FormulaModel model;
  NoCertifier certifier;
  Problem problem = problem_of(model, {job_of("embed", 3'600'000, 1h)});
  problem.options.rule = Rule::certified;
  problem.certifier = &certifier;
  for (const char* planner : {"elastic", "paris"}) {
    const PlanAnswer answer = plan_by(planner, problem);
    ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
    ASSERT_TRUE(answer.services[0].verdict.has_value());
    EXPECT_TRUE(answer.services[0].verdict->holds);
    EXPECT_LE(to_seconds(answer.services[0].verdict->latency), 0.95 * 3600 + 1e-6);
    EXPECT_NEAR(to_seconds(answer.services[0].verdict->latency) * answer.services[0].load_factor, 0.95 * 3600, 1e-3);
  }
}

TEST(Jobs, TellTheNearestDeadline) {
  const FormulaModel model;
  Problem problem = problem_of(model, {job_of("embed", 1'000'000'000, 1ms)});
  problem.options.rule = Rule::no_waiting;
  const std::string reason = plan_by("elastic", problem).reason;
  EXPECT_NE(reason.find("the deadline is 1 ms; a deadline above "), std::string::npos) << reason;
}

// The two devices of the first test become one when the deadline is 70 % later: 6,192/s.
TEST(Jobs, AreSavedForByALaterDeadline) {
  const FormulaModel model;
  const Problem problem = problem_of(model, {job_of("embed", 36'000'000, 1h)});
  const auto planner = find_planner("elastic")->make();
  const auto relief = slo_relief(problem, *planner, planner->plan(problem), {.slo_factor = 1.7});
  EXPECT_EQ(relief[0].saved(), 1);
}

}  // namespace
}  // namespace tangram::plan

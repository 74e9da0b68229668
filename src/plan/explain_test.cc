#include "plan/explain.h"

#include <gtest/gtest.h>

#include "plan/test_problems.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

TEST(Explain, CostsOfServicesSumToThePrice) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 2000), planned_service("b", 700, 30ms)});
  problem.options.objective = Objective::price;
  problem.fleet.groups = {group_of("a100-80gb", 1.8), group_of("a30", 0.6, 2)};
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned);
  double sum = 0;
  for (const double cost : service_costs(problem, answer)) sum += cost;
  EXPECT_NEAR(sum, answer.price, 1e-9);
}

// Rule half leaves 0.45 * 4.8 ms = 2.16 ms: only 7g is fast enough, for batches of one, 467/s: two devices for 600/s.
// With 5.76 ms, 2.592 ms are left: 2g (2.5 ms, 400/s) will do, and one device has three.
TEST(Explain, FindsWhatALongerSloSaves) {
  const FormulaModel model;
  const Problem problem = problem_of(model, {planned_service("a", 600, 4800us), planned_service("b", 10, 400ms)});
  const auto planner = find_planner("elastic")->make();
  const PlanAnswer answer = planner->plan(problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  const auto relief = slo_relief(problem, *planner, answer);
  ASSERT_EQ(relief.size(), 2u);
  EXPECT_GE(relief[0].saved(), 1);
  EXPECT_EQ(relief[1].saved(), 0);
  EXPECT_EQ(relief[0].basis, ReliefBasis::planned);
  EXPECT_NE(why_not_fewer(problem, answer).find("this is the best of them"), std::string::npos);
}

// Counts what it is asked, and wants so many slices of every service.
class SlicesCertifier final : public Certifier {
 public:
  explicit SlicesCertifier(int least) : least_(least) {}

  Verdict certify(const Service&, std::span<const ReplicaGroup> groups, bool) override {
    int slices = 0;
    for (const auto& group : groups) slices += group.count;
    Verdict verdict;
    verdict.holds = slices >= least_;
    verdict.attainment = verdict.attainment_low = verdict.attainment_high = verdict.holds ? 1 : 0.5;
    return verdict;
  }

 private:
  int least_;
};

// Where planning again would take too long, the plan that there is stands beside the least that a longer promise could
// need: no row says that less than the bound above it is taken now, and none limits a saving that could be larger.
TEST(Explain, HoldsBoundsAgainstThePlanThatThereIs) {
  const FormulaModel model;
  SlicesCertifier certifier(4);
  Problem problem = problem_of(model, {planned_service("a", 600), planned_service("b", 10)});
  problem.options.rule = Rule::certified;
  problem.certifier = &certifier;
  const auto planner = find_planner("elastic")->make();
  const PlanAnswer answer = planner->plan(problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  ASSERT_GE(answer.bound, 2);
  for (const auto& relief : slo_relief(problem, *planner, answer, {.certifications_max = 0})) {
    EXPECT_EQ(relief.basis, ReliefBasis::bound);
    EXPECT_EQ(relief.price_before, answer.price);
    EXPECT_LT(relief.price_after, answer.bound) << "without waiting one device would do";
  }
  for (const auto& relief : slo_relief(problem, *planner, answer)) {
    EXPECT_EQ(relief.basis, ReliefBasis::planned);
    EXPECT_EQ(relief.saved(), 0) << "four slices are four slices, however long the promise is";
  }
}

// One slice carries each service, so that nothing smaller has the capacity; with a certifier that wants three, two were
// asked about and rejected.
TEST(Explain, SaysWhatIsKnownOfSmallerCovers) {
  const FormulaModel model;
  SlicesCertifier any(1);
  Problem problem = problem_of(model, {planned_service("a", 10)});
  problem.options.rule = Rule::certified;
  problem.certifier = &any;
  const PlanAnswer one = plan_by("elastic", problem);
  ASSERT_EQ(one.status, PlanStatus::planned) << one.reason;
  EXPECT_FALSE(one.services[0].nearest.has_value());
  EXPECT_EQ(one.services[0].smaller, SmallerCovers::no_capacity);
  SlicesCertifier three(3);
  problem.certifier = &three;
  const PlanAnswer more = plan_by("elastic", problem);
  ASSERT_EQ(more.status, PlanStatus::planned) << more.reason;
  ASSERT_TRUE(more.services[0].nearest.has_value());
  EXPECT_EQ(more.services[0].smaller, SmallerCovers::rejected);
}

}  // namespace
}  // namespace tangram::plan

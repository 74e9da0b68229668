// What nothing can serve, and the reasons that are given.

#include <gtest/gtest.h>

#include "plan/test_problems.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

// The fastest run takes 2 + 1/7 ms = 2.143 ms on 7g; under rule half an Slo above 2.143 * 2 / 0.9 = 4.762 ms would do.
TEST(Infeasible, AnSloBelowTheFastestRunNamesTheOneThatCouldBeKept) {
  const FormulaModel model;
  const PlanAnswer answer = plan_by("elastic", problem_of(model, {planned_service("a", 10, 4ms)}));
  EXPECT_EQ(answer.status, PlanStatus::infeasible);
  EXPECT_EQ(answer.service, "a");
  EXPECT_EQ(
      answer.reason,
      "a: the Slo is 4 ms, but the fastest slice of the fleet, a100-80gb 7g.80gb, takes 2.143 ms for one request; "
      "under rule half the Slo must be above 4.762 ms, and longer where requests wait");
  EXPECT_EQ(plan_by("elastic", problem_of(model, {planned_service("a", 10, 4763us)})).status, PlanStatus::planned);
}

TEST(Infeasible, AModelThatFitsNoSliceIsNamed) {
  const FormulaModel model;
  for (const auto& info : planners()) {
    const PlanAnswer answer =
        plan_by(info.name, problem_of(model, {planned_service("a", 10), planned_service("nowhere", 1)}));
    EXPECT_EQ(answer.status, PlanStatus::infeasible) << info.name;
    EXPECT_EQ(answer.reason, "nowhere: no slice of the fleet runs nowhere: it was not measured on a100-80gb")
        << info.name;
  }
}

TEST(Infeasible, AnEmptyFleetIsToldSo) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 10)});
  problem.fleet.groups.clear();
  for (const auto& info : planners()) {
    EXPECT_EQ(plan_by(info.name, problem).reason, "the fleet is empty; add at least one device") << info.name;
  }
}

TEST(Infeasible, AFleetThatIsTooSmallSaysHowManyItHas) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 30000)});
  problem.fleet.groups = {group_of("a100-80gb", 1, 2)};
  for (const auto& info : planners()) {
    const PlanAnswer answer = plan_by(info.name, problem);
    EXPECT_EQ(answer.status, PlanStatus::infeasible) << info.name;
    EXPECT_NE(answer.reason.find("the fleet has 2"), std::string::npos) << info.name << ": " << answer.reason;
  }
}

// Knows A100s alone, and inputs of up to 512.
class NarrowModel final : public LatencyModel {
 public:
  std::optional<Prediction> predict(const RunPoint& point) const override {
    if (point.device != "a100-80gb" || point.size > 512) return std::nullopt;
    return model_.predict(point);
  }

 private:
  FormulaModel model_;
};

TEST(Infeasible, AnInputLongerThanAnyMeasuredNamesTheLongest) {
  const NarrowModel model;
  Service service = planned_service("a", 10, 10s);
  service.input_size = ConstantSize{5000};
  const PlanAnswer answer = plan_by("elastic", problem_of(model, {service}));
  EXPECT_EQ(answer.service, "a");
  EXPECT_EQ(answer.reason,
            "a: no slice of the fleet runs a at input size 5000: the largest measured size is 512; measure larger "
            "sizes, or limit the input sizes");
  Problem elsewhere = problem_of(model, {planned_service("a", 10)});
  elsewhere.fleet.groups = {group_of("a30")};
  EXPECT_EQ(plan_by("elastic", elsewhere).reason, "a: no slice of the fleet runs a: it was not measured on a30");
}

// Only the two A100s count: 30,000/s take 5 devices of 6,788/s each.
TEST(Infeasible, DevicesThatRunNothingAreNotCounted) {
  const NarrowModel model;
  Problem problem = problem_of(model, {planned_service("a", 30000, 300ms)});
  problem.fleet.groups = {group_of("a100-80gb", 1, 2), group_of("a30", 1, 7)};
  EXPECT_EQ(
      plan_by("elastic", problem).reason,
      "the fleet has 2 devices that run the models, but no way to cut them serves all services; 5 (5 x a100-80gb) "
      "would be enough if no type had a limit; lower rates or longer Slos would help");
}

}  // namespace
}  // namespace tangram::plan

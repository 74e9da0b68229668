// All planners on small problems, judged by check_plan.

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "plan/explain.h"
#include "plan/test_problems.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

Service random_service(Rng& rng, int number) {
  Service service =
      planned_service("s" + std::to_string(number), rng.uniform(5, 1500), from_milliseconds(rng.uniform(20, 400)));
  if (rng.chance(0.5)) service.input_size = LogNormalSize{4, rng.uniform(0.2, 0.8), 1, 12};
  if (rng.chance(0.3)) service.samples = ConstantSize{rng.integer(1, 4)};
  return service;
}

// Every planner's plan passes the check that shares no code with it; elastic is never beaten by one that may choose
// only among its plans, and no plan is below elastic's bound.
TEST(Planners, MakePlansThatPassTheCheckAndAreNeverBetterThanElastic) {
  int planned = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng = Rng(seed).stream("planners");
    const FormulaModel model(rng.uniform(0.5, 4), rng.uniform(0.2, 2));
    std::vector<Service> services;
    const auto count = rng.integer(1, 4);
    for (int s = 0; s < count; ++s) services.push_back(random_service(rng, s));
    Problem problem = problem_of(model, std::move(services));
    problem.options.rule = rng.chance(0.5) ? Rule::half : Rule::no_waiting;
    problem.options.processes_max = rng.chance(0.3) ? 2 : 1;
    problem.options.bucketing = Bucketing::longest;
    const PlanAnswer elastic = plan_by("elastic", problem);
    for (const auto& info : planners()) {
      const PlanAnswer answer = plan_by(info.name, problem);
      EXPECT_EQ(answer.status == PlanStatus::planned, answer.reason.empty()) << info.name << ", seed " << seed;
      if (answer.status != PlanStatus::planned) continue;
      ++planned;
      EXPECT_EQ(problems_of(problem, answer), "") << info.name << ", seed " << seed;
      ASSERT_EQ(elastic.status, PlanStatus::planned) << info.name << ", seed " << seed;
      EXPECT_LE(elastic.devices, answer.devices) << info.name << ", seed " << seed;
      EXPECT_LE(elastic.bound, answer.price + 1e-6) << info.name << ", seed " << seed;
    }
  }
  EXPECT_GT(planned, 60);
}

TEST(Planners, PlanInBucketsOfAnyKind) {
  const FormulaModel model;
  Service service = planned_service("text", 900, 120ms);
  service.input_size = LogNormalSize{4, 0.6, 1, 16};
  Problem problem = problem_of(model, {service});
  for (const Bucketing bucketing : {Bucketing::chosen, Bucketing::longest, Bucketing::fixed}) {
    problem.options.bucketing = bucketing;
    problem.options.edges = {2, 5, 9};
    const PlanAnswer answer = plan_by("elastic", problem);
    ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
    EXPECT_EQ(problems_of(problem, answer), "");
    const auto& edges = answer.services[0].edges;
    EXPECT_TRUE(bucketing != Bucketing::longest || edges == std::vector<std::int64_t>{16});
    EXPECT_TRUE(bucketing != Bucketing::fixed || edges == (std::vector<std::int64_t>{2, 5, 9, 16}));
  }
}

// 900/s take one slice of one or a board without cuts, for each of two services. What is proved of uncut boards says
// nothing about others.
TEST(Planners, SayAmongWhichPlansTheirsIsBest) {
  const FormulaModel model;
  const Problem problem = problem_of(model, {planned_service("a", 800, 60ms), planned_service("b", 800, 60ms)});
  const PlanAnswer whole = plan_by("whole_gpu", problem);
  const PlanAnswer elastic = plan_by("elastic", problem);
  ASSERT_EQ(whole.devices, 2);
  ASSERT_EQ(elastic.devices, 1);
  EXPECT_TRUE(elastic.proved && elastic.among.empty());
  EXPECT_EQ(whole.among, "plans without cuts");
  EXPECT_EQ(plan_by("homogeneous", problem).among, "plans with one kind of slice");
  EXPECT_NE(why_not_fewer(problem, whole).find("None of the plans without cuts"), std::string::npos);
  EXPECT_EQ(why_not_fewer(problem, elastic).find("cuts"), std::string::npos);
}

// Whatever the devices, the promise does not hold when it is looked at again.
TEST(Certified, NoPlanGoesOutThatWasNotConfirmed) {
  const FormulaModel model;
  StricterOnSecondLook certifier(0);
  Problem problem = problem_of(model, {planned_service("a", 100)});
  problem.fleet.groups = {group_of("a30")};
  problem.options.rule = Rule::certified;
  problem.certifier = &certifier;
  const PlanAnswer answer = plan_by("elastic", problem);
  EXPECT_EQ(answer.status, PlanStatus::infeasible);
  EXPECT_EQ(answer.service, "a");
  EXPECT_NE(answer.reason.find("in the confirmation with other random numbers"), std::string::npos) << answer.reason;
}

// A promise that no simulation of a sensible length can certify is refused with the reason, and planned without one.
TEST(Planners, SayWhichPercentileIsTooHighToCertify) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 10)});
  problem.workload.services[0].slo.percentile = 99.9999;
  EXPECT_EQ(plan_by("elastic", problem).status, PlanStatus::planned);
  problem.options.rule = Rule::certified;
  EXPECT_NE(plan_by("elastic", problem).reason.find("a: a percentile of 99.9999 cannot be certified"),
            std::string::npos);
}

// Traffic that is not one rate of one mixture.

// Sizes grow from 1 to 8, of which a slice of one runs 4 / 34 ms = 118/s in the half of 90 ms that counts; of size 1,
// 32 / 34 ms = 941/s. 900/s take one slice before and eight after, and never nine, as both together would.
TEST(Drift, IsPlannedForAtBothEnds) {
  const FormulaModel model;
  Service service = planned_service("a", 900, 90ms);
  service.size_drift = SizeDrift{ConstantSize{8}, 100, 200};
  for (const bool back : {false, true}) {
    if (back) std::swap(service.input_size, service.size_drift->to);
    for (const Rule rule : {Rule::half, Rule::no_waiting}) {
      Problem problem = problem_of(model, {service});
      problem.options.rule = rule;
      const PlanAnswer answer = plan_by("elastic", problem);
      ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
      EXPECT_EQ(problems_of(problem, answer), "");
      Problem after = problem;
      after.workload.services[0].size_drift.reset();
      after.workload.services[0].input_size = ConstantSize{8};
      EXPECT_EQ(problems_of(after, answer), "") << back;
      EXPECT_EQ(answer.devices, plan_by("elastic", after).devices) << back;
    }
  }
}

// A plan for the sizes from before is refused by the check.
TEST(Drift, IsSeenByTheCheck) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 900, 90ms)});
  problem.workload.services[0].input_size = HistogramSize{"", {{1, 99}, {8, 1}}};
  const PlanAnswer answer = plan_by("elastic", problem);
  problem.workload.services[0].size_drift = SizeDrift{ConstantSize{8}, 100, 200};
  EXPECT_NE(problems_of(problem, answer).find("of the samples that arrive"), std::string::npos);
  problem.workload.services[0].size_drift = SizeDrift{ConstantSize{9}, 100, 200};
  EXPECT_NE(problems_of(problem, answer).find("inputs reach size 9"), std::string::npos);
}

// Ten clients that think for 50 ms and are answered within 50 ms ask 100 times a second at least.
TEST(ClosedLoop, NeedsTheRateAtWhichItsPromiseIsKept) {
  const FormulaModel model;
  Service service = planned_service("a", 0, 50ms);
  service.traffic = ClosedLoopTraffic{10, 0.05};
  Problem problem = problem_of(model, {service});
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_NEAR(answer.services[0].rate_per_s, 100, 1e-9);
  EXPECT_EQ(problems_of(problem, answer), "");
  problem.workload.services[0].traffic = ClosedLoopTraffic{1000, 0.05};
  EXPECT_NE(problems_of(problem, answer).find("of the samples that arrive"), std::string::npos);
  problem.options.objective = Objective::headroom;
  problem.fleet.groups[0].count = 4;
  EXPECT_EQ(plan_by("elastic", problem).reason,
            "the objective headroom scales rates, but a closed loop has no rate; choose another objective");
  // Beside a service with a rate the loop stays as it is.
  problem.workload.services.push_back(planned_service("b", 100, 60ms));
  const PlanAnswer beside = plan_by("elastic", problem);
  ASSERT_EQ(beside.status, PlanStatus::planned) << beside.reason;
  EXPECT_GT(beside.headroom, 1);
  EXPECT_EQ(problems_of(problem, beside), "");
}

// Memory.

// A thousand MiB a sample.
class MemoryModel final : public LatencyModel {
 public:
  std::optional<Prediction> predict(const RunPoint& point) const override {
    auto run = model_.predict(point);
    if (run) run->memory_mib = 1000.0 * static_cast<double>(point.batch);
    return run;
  }

 private:
  FormulaModel model_;
};

// Of 80 GiB on 7g, 8 % free leave room for batches of 64, half free for 32: one 7g alone carries 4,000/s with either.
TEST(Memory, HeadroomLimitsBatches) {
  const MemoryModel model;
  Problem problem = problem_of(model, {planned_service("a", 300, 2s)});
  for (const double headroom : {0.0, 0.08, 0.5, 0.8}) {
    problem.options.memory_headroom = headroom;
    const PlanAnswer answer = plan_by("elastic", problem);
    ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
    EXPECT_EQ(problems_of(problem, answer), "");
    for (const auto& group : answer.services[0].groups) {
      const Geometry& geometry = *find_geometry(group.device_type);
      const auto& profile = geometry.profiles[*find_profile(geometry, group.mig_profile)];
      const double peak = 1000.0 * static_cast<double>(group.replica.buckets[0].batch_size);
      EXPECT_LE(peak, (1 - headroom) * 1024 * profile.memory_gib.value);
      EXPECT_GT(4 * peak, (1 - headroom) * 1024 * profile.memory_gib.value) << "the batch is smaller than it need be";
    }
    Problem stricter = problem;
    stricter.options.memory_headroom = 0.99;
    EXPECT_NE(problems_of(stricter, answer).find("with 99 % kept free"), std::string::npos);
  }
  problem.options.memory_headroom = 0.999;
  EXPECT_NE(plan_by("elastic", problem).reason.find("it does not fit into the memory with 99.9 % kept free"),
            std::string::npos);
}

// PARIS.

// Queries of one, two and eight samples. PARIS mixes sizes, and all that it cuts is used.
TEST(ParisPlanner, CutsForTheSamplesThatRequestsHold) {
  const FormulaModel model;
  Service service = planned_service("a", 20'000, 60ms);
  service.samples = HistogramSize{"", {{1, 6}, {2, 3}, {8, 1}}};
  const Problem problem = problem_of(model, {service});
  const PlanAnswer answer = plan_by("paris", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_EQ(problems_of(problem, answer), "");
  EXPECT_GT(answer.services[0].groups.size(), 1u);
  EXPECT_EQ(answer.services[0].edges.size(), 1u);
}

// Others use half of every device. No planner puts anything there, and each plan says so.
TEST(Planners, NeverUseWhatIsReserved) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Rng rng = Rng(seed).stream("reserved");
    const FormulaModel model(rng.uniform(0.5, 2), rng.uniform(0.2, 1));
    std::vector<Service> services;
    for (int s = 0; s < 3; ++s) services.push_back(random_service(rng, s));
    Problem problem = problem_of(model, std::move(services));
    problem.options.bucketing = Bucketing::longest;
    DeviceGroup& group = problem.fleet.groups[0];
    const Geometry& geometry = *find_geometry(group.type);
    group.reserved = parse_layout(geometry, seed % 2 == 0 ? "3g.40gb@4" : "2g.20gb@0 + 1g.10gb@6").layout;
    if (seed % 3 == 0) problem.fleet.spare = SparePolicy::one_device;
    int planned = 0;
    for (const auto& info : planners()) {
      const PlanAnswer answer = plan_by(info.name, problem);
      if (answer.status != PlanStatus::planned) continue;
      ++planned;
      EXPECT_EQ(problems_of(problem, answer), "") << info.name << " " << seed;
      for (const auto& device : answer.plan.devices) {
        EXPECT_EQ(reserved_of(device), group.reserved) << info.name << " " << seed;
      }
    }
    EXPECT_GE(planned, 3) << seed;
    // A plan without the mark, or with a replica on the slice, does not pass.
    Plan plan = plan_by("elastic", problem).plan;
    for (auto& slice : plan.devices[0].slices) slice.reserved = false;
    EXPECT_FALSE(check_plan(problem, plan).empty());
  }
}

}  // namespace
}  // namespace tangram::plan

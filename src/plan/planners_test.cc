// All planners on small problems, judged by check_plan.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/rng.h"
#include "base/text.h"
#include "plan/buckets.h"
#include "plan/check_plan.h"
#include "plan/demand.h"
#include "plan/explain.h"
#include "plan/headroom.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

// A batch takes launch + work * batch * size / compute slices; p99 is a tenth more. A model whose name ends in "-big"
// fits only slices of three compute slices and more; "nowhere" fits none.
class FormulaModel final : public LatencyModel {
 public:
  explicit FormulaModel(double launch_ms = 2, double work_ms = 1) : launch_ms_(launch_ms), work_ms_(work_ms) {}

  std::optional<Prediction> predict(const RunPoint& point) const override {
    const Geometry* geometry = find_geometry(point.device);
    if (geometry == nullptr || point.model == "nowhere" || point.batch > 64) return std::nullopt;
    const auto profile = find_profile(*geometry, point.mig_profile);
    if (!profile) return std::nullopt;
    const int slices = geometry->profiles[*profile].compute_slices;
    if (point.model.ends_with("-big") && slices < 3) return std::nullopt;
    const double chip = point.device.starts_with("h100") ? 0.5 : point.device == "a30" ? 1.2 : 1;
    const double ms = launch_ms_ + chip * work_ms_ * static_cast<double>(point.batch * point.size) / slices *
                                       static_cast<double>(point.processes);
    return Prediction{from_milliseconds(ms), from_milliseconds(1.1 * ms)};
  }

 private:
  double launch_ms_;
  double work_ms_;
};

DeviceGroup group_of(const std::string& type, double price = 1, std::optional<int> count = {}) {
  DeviceGroup group;
  group.name = group.type = type;
  group.count = count;
  group.price_per_hour = price;
  group.profiles = ProfileSet::base;
  return group;
}

Service planned_service(const std::string& name, double rate_per_s, Duration slo = 100ms) {
  Service service;
  service.name = name;
  service.model = name;
  service.slo = {slo, 99};
  service.traffic = PoissonTraffic{rate_per_s};
  return service;
}

Problem problem_of(const LatencyModel& model, std::vector<Service> services) {
  Problem problem;
  problem.fleet.groups = {group_of("a100-80gb")};
  problem.workload.services = std::move(services);
  problem.latency = &model;
  problem.options.rule = Rule::half;
  return problem;
}

PlanAnswer plan_by(std::string_view planner, const Problem& problem) {
  return find_planner(planner)->make()->plan(problem);
}

std::string problems_of(const Problem& problem, const PlanAnswer& answer) {
  Problem asked = problem;
  asked.options.demand_factor *= answer.headroom;
  return text::join(check_plan(asked, answer.plan), "\n");
}

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

// A run of one takes 2 + 1/s ms on s compute slices, and half of an Slo of 8 ms less a tenth is 3.6 ms. Batches of
// 1, 1, 3 and 11 would do; of powers of two, 1 on 1g (333/s) and 8 on 7g (2 + 8/7 = 3.14 ms, 2545/s). Per compute slice
// that is 333 for 1g; 2g runs 2 (3 ms, 667/s), 333; 3g runs 4 (3.33 ms, 1200/s), 400; 4g runs 4 (3 ms, 1333/s), 333;
// 7g 363. ParvaGPU takes 3g: 1300/s is one of them, and the rest, 100/s, fits 1g.
TEST(Parva, TakesTheMostEfficientSizeAndOneSmallerForTheRest) {
  const FormulaModel model;
  const Problem problem = problem_of(model, {planned_service("a", 1300, 8ms)});
  const PlanAnswer answer = plan_by("parva", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned);
  ASSERT_EQ(answer.devices, 1);
  std::map<std::string, int> counts;
  for (const auto& slice : answer.plan.devices[0].slices) {
    ++counts[answer.plan.devices[0].geometry.profiles[slice.slice.profile].name];
  }
  EXPECT_EQ(counts, (std::map<std::string, int>{{"1g.10gb", 1}, {"3g.40gb", 1}}));
  EXPECT_EQ(problems_of(problem, answer), "");
}

// Five slices of one on boards that hold four: two boards, also where the board has places that ParvaGPU's lacks.
// 16 / 18 ms = 889/s on each slice.
TEST(Parva, UsesAllPlacesOfABoard) {
  const FormulaModel model;
  for (const char* type : {"a30", "rtx-pro-6000"}) {
    Problem problem = problem_of(model, {planned_service("a", 3500, 60ms)});
    problem.fleet.groups = {group_of(type)};
    const PlanAnswer answer = plan_by("parva", problem);
    ASSERT_EQ(answer.status, PlanStatus::planned) << type;
    EXPECT_EQ(answer.plan.devices[0].slices.size(), 4u) << type;
    EXPECT_EQ(problems_of(problem, answer), "") << type;
  }
}

// On 3g a batch of 16 takes 2 + 16/3 = 7.33 ms, within 0.9 of half an Slo of 20 ms: 2182/s, 727 for each compute slice.
// 4g (16 in 6 ms: 2667/s) and 7g (32 in 6.57 ms: 4870/s) have less, and smaller slices cannot hold the models. So each
// service needs one 3g. A board has room for two of them, at 0 and at 4, but ParvaGPU starts a 3g at 4 alone.
TEST(Parva, StartsSlicesOfThreeAtFourAlone) {
  const FormulaModel model;
  const Problem problem =
      problem_of(model, {planned_service("a-big", 2000, 20ms), planned_service("b-big", 2000, 20ms)});
  const PlanAnswer answer = plan_by("parva", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned);
  ASSERT_EQ(answer.devices, 2);
  for (const auto& device : answer.plan.devices) {
    ASSERT_EQ(device.slices.size(), 1u);
    EXPECT_EQ(device.geometry.profiles[device.slices[0].slice.profile].name, "3g.40gb");
    EXPECT_EQ(device.slices[0].slice.start, 4);
  }
  EXPECT_EQ(problems_of(problem, answer), "");
  EXPECT_EQ(plan_by("elastic", problem).devices, 1);
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

// What nothing can serve.

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

// Prices.

// On an H100 a run takes half as long at three times the price, and an A30 is slower and cheap: at these prices A30s
// win wherever the model fits them, and "vision-big", which needs three compute slices, may still use the A30's 4g.
TEST(Price, AMixedFleetIsNeverDearerThanAnyOfItsPartsAlone) {
  const FormulaModel model;
  const std::vector<Service> services{planned_service("a", 2500, 60ms), planned_service("vision-big", 800, 40ms),
                                      planned_service("c", 90, 15ms)};
  const std::vector<DeviceGroup> parts{group_of("a30", 0.45), group_of("a100-80gb", 1.8), group_of("h100-80gb", 3.5)};
  Problem problem = problem_of(model, services);
  problem.options.objective = Objective::price;
  problem.fleet.groups = parts;
  const PlanAnswer mixed = plan_by("elastic", problem);
  ASSERT_EQ(mixed.status, PlanStatus::planned) << mixed.reason;
  EXPECT_EQ(problems_of(problem, mixed), "");
  EXPECT_NEAR(mixed.price, plan_price(problem, mixed.plan), 1e-9);
  EXPECT_LE(mixed.bound, mixed.price + 1e-9);
  int planned = 0;
  for (const auto& part : parts) {
    Problem alone = problem;
    alone.fleet.groups = {part};
    const PlanAnswer answer = plan_by("elastic", alone);
    if (answer.status != PlanStatus::planned) continue;
    ++planned;
    EXPECT_EQ(problems_of(alone, answer), "") << part.type;
    EXPECT_LE(mixed.price, answer.price + 1e-9) << part.type;
  }
  EXPECT_GT(planned, 1);
}

// In batches of 16 a slice of one runs 16 / 18 ms = 889/s on an A100, 6222/s in all, and 16 / 21.2 ms = 755/s on an
// A30, 3019/s in all. One of each carries 8500/s for 2.0 an hour; two A100s cost 3.6, and there is only one A30.
TEST(Price, TakesTheCheapBoardFirstAndTheDearOneForTheRest) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 8500, 60ms)});
  problem.options.objective = Objective::price;
  problem.fleet.groups = {group_of("a30", 0.2, 1), group_of("a100-80gb", 1.8)};
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_EQ(problems_of(problem, answer), "");
  const auto boards = std::ranges::count(answer.plan.devices, "a30", &PlannedDevice::type);
  EXPECT_EQ(boards, 1);
  EXPECT_EQ(answer.plan.devices.size(), 2u);
}

// The name of one group begins with that of the other, and of the cheaper one there is only one device.
TEST(Price, IsThatOfTheGroupThatADeviceIsTakenFrom) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 8500, 60ms)});
  problem.options.objective = Objective::price;
  problem.fleet.groups = {group_of("a30", 3, 1), group_of("a30", 5)};
  problem.fleet.groups[0].name = "x";
  problem.fleet.groups[1].name = "x-1";
  for (const auto spare : {SparePolicy::none, SparePolicy::one_device}) {
    problem.fleet.spare = spare;
    const PlanAnswer answer = plan_by("elastic", problem);
    ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
    EXPECT_NEAR(answer.price, 3 + 5 * (answer.devices - 1), 1e-9);
    EXPECT_NEAR(plan_price(problem, answer.plan), answer.price, 1e-9);
    EXPECT_GE(answer.price, answer.bound);
    EXPECT_EQ(problems_of(problem, answer), "");
  }
}

// 755/s on each of the four slices of an A30 and 889/s on the seven of an A100: two free A30s carry 6000/s alone, and
// 8500/s take an A100 as well.
TEST(Price, FreeDevicesAreTakenAsFarAsTheyAreOfUse) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 6000, 60ms)});
  problem.options.objective = Objective::price;
  problem.fleet.groups = {group_of("a30", 0, 9), group_of("a100-80gb", 2)};
  const PlanAnswer free = plan_by("elastic", problem);
  EXPECT_EQ(free.devices, 2);
  EXPECT_EQ(free.price, 0);
  EXPECT_TRUE(free.proved);
  problem.fleet.groups[0].count = 2;
  problem.workload = scale_rates(problem.workload, 8500.0 / 6000);
  const PlanAnswer bought = plan_by("elastic", problem);
  EXPECT_EQ(bought.price, 2);
  EXPECT_EQ(bought.bound, 2);
  EXPECT_TRUE(bought.proved);
  // Buckets are worth having on them, too.
  problem.workload.services[0].input_size = HistogramSize{"", {{1, 9}, {8, 1}}};
  EXPECT_EQ(plan_by("elastic", problem).services[0].edges.size(), 2u);
}

TEST(Price, NeedsPrices) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 100)});
  problem.options.objective = Objective::price;
  problem.fleet.groups = {group_of("a30", 0), group_of("a100-80gb", 0)};
  EXPECT_EQ(plan_by("elastic", problem).reason,
            "no device of the fleet has a price_per_hour; give prices, or choose the objective devices");
  problem.fleet.groups[1].price_per_hour = 2;
  EXPECT_EQ(plan_by("elastic", problem).reason,
            "a30 costs nothing and has no limit, so no other type would ever be used; give it a price_per_hour or a "
            "count");
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

// Reserves.

TEST(Headroom, IsTheLargestFactorThatTheFleetCarries) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 500), planned_service("b", 300, 50ms)});
  problem.options.objective = Objective::headroom;
  problem.fleet.groups = {group_of("a100-80gb", 1, 3)};
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_GT(answer.headroom, 1);
  EXPECT_LE(answer.devices, 3);
  EXPECT_EQ(problems_of(problem, answer), "");
  // Two parts in a hundred more do not fit.
  problem.options.objective = Objective::devices;
  problem.workload = scale_rates(problem.workload, 1.02 * answer.headroom);
  EXPECT_EQ(plan_by("elastic", problem).status, PlanStatus::infeasible);
}

TEST(Headroom, BelowOneTellsHowMuchOfTheRatesFits) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 50000)});
  problem.options.objective = Objective::headroom;
  problem.fleet.groups = {group_of("a100-80gb", 1, 2)};
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_LT(answer.headroom, 1);
  EXPECT_GT(answer.headroom, 0.1);
}

TEST(Headroom, NeedsAFleetOfFixedSize) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 500)});
  problem.options.objective = Objective::headroom;
  EXPECT_EQ(
      plan_by("elastic", problem).reason,
      "the headroom is unlimited on a fleet without a limit; give a100-80gb a count, or choose another objective");
}

// Says yes to everything while a plan is searched, and when it is confirmed only to so many requests a second for each
// compute slice.
class StricterOnSecondLook final : public Certifier {
 public:
  explicit StricterOnSecondLook(double rate_per_slice) : rate_per_slice_(rate_per_slice) {}
  Verdict certify(const Service& service, std::span<const ReplicaGroup> groups, bool confirm) override {
    ++asked;
    double slices = 0;
    for (const auto& group : groups) slices += group.count * group.compute_slices;
    const bool holds = !confirm || planning_rate_per_s(service) <= rate_per_slice_ * slices;
    return {.holds = holds,
            .attainment = holds ? 1.0 : 0.5,
            .attainment_low = holds ? 1.0 : 0.4,
            .attainment_high = holds ? 1.0 : 0.6,
            .latency = holds ? 1ms : Duration::max()};
  }
  int asked = 0;

 private:
  double rate_per_slice_;
};

// One device has seven compute slices, and 100/s are allowed on each: never more than seven times 100/s. By capacity
// alone 970/s run on each. The search asks for room in steps, so it may end below seven, and not far below.
TEST(Headroom, IsAFactorAtWhichEveryServiceWasConfirmed) {
  const FormulaModel model;
  StricterOnSecondLook certifier(100);
  Problem problem = problem_of(model, {planned_service("a", 100)});
  problem.options.rule = Rule::certified;
  problem.options.objective = Objective::headroom;
  problem.fleet.groups = {group_of("a100-80gb", 1, 1)};
  problem.certifier = &certifier;
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_TRUE(answer.services[0].verdict->holds);
  EXPECT_LE(answer.headroom, 7);
  EXPECT_GT(answer.headroom, 3.5);
  EXPECT_FALSE(answer.proved);
  EXPECT_EQ(why_not_fewer(problem, answer).find("devices takes"), std::string::npos);
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

TEST(Spare, AnyDeviceMayBeLost) {
  const FormulaModel model;
  for (const double scale : {0.1, 1.0, 12.0}) {
    Problem problem = problem_of(model, {planned_service("a", 900 * scale), planned_service("b", 300 * scale, 50ms),
                                         planned_service("c", 40, 30ms)});
    const PlanAnswer bare = plan_by("elastic", problem);
    problem.fleet.spare = SparePolicy::one_device;
    EXPECT_NE(problems_of(problem, bare), "") << scale;  // The check does see that nothing was held back.
    for (const auto& info : planners()) {
      const PlanAnswer answer = plan_by(info.name, problem);
      ASSERT_EQ(answer.status, PlanStatus::planned) << info.name << ": " << answer.reason;
      EXPECT_EQ(problems_of(problem, answer), "") << info.name << " at " << scale;
    }
    const PlanAnswer spared = plan_by("elastic", problem);
    EXPECT_GT(spared.devices, bare.devices) << scale;
    EXPECT_LE(spared.devices, 2 * bare.devices) << scale;
  }
}

// Four compute slices for every hundred requests a second are more than capacity asks for: 970/s run on each.
TEST(Spare, IsCertifiedWithTheDevicesThatItEndsWith) {
  const FormulaModel model;
  StricterOnSecondLook certifier(25);
  Problem problem = problem_of(model, {planned_service("a", 150), planned_service("b", 50, 50ms)});
  problem.fleet.groups = {group_of("a30", 0.45, 2), group_of("a100-80gb", 1.8, 4)};
  problem.fleet.spare = SparePolicy::one_device;
  problem.options.rule = Rule::certified;
  problem.options.objective = Objective::price;
  problem.certifier = &certifier;
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_EQ(problems_of(problem, answer), "");
  for (const auto& service : answer.services) {
    double slices = 0;
    for (const auto& group : service.groups) {
      EXPECT_GT(group.count, 0) << group.mig_profile;
      slices += group.count * group.compute_slices;
    }
    EXPECT_GE(25 * slices, service.rate_per_s) << service.service;
    EXPECT_TRUE(service.verdict && service.verdict->holds) << service.service;
  }
  EXPECT_NEAR(answer.price, plan_price(problem, answer.plan), 1e-9);
  EXPECT_EQ(answer.proved, answer.price <= answer.bound + 1e-9);
}

// 25/s are allowed on each compute slice when it is looked at again, and 970/s run there: capacity asks for one slice
// of each service after a loss, promises for six and two.
TEST(Spare, KeepsPromisesWithoutAnyOneDevice) {
  const FormulaModel model;
  StricterOnSecondLook certifier(25);
  Problem problem = problem_of(model, {planned_service("a", 150), planned_service("b", 50, 50ms)});
  problem.fleet.spare = SparePolicy::one_device;
  problem.options.rule = Rule::certified;
  problem.certifier = &certifier;
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  for (const auto& lost : answer.plan.devices) {
    std::map<std::string, int> slices;
    for (const auto& device : answer.plan.devices) {
      for (const auto& slice : device.slices) {
        if (device.name == lost.name || slice.replicas.empty()) continue;
        slices[slice.replicas[0].service] += device.geometry.profiles[slice.slice.profile].compute_slices;
      }
    }
    EXPECT_GE(slices["a"], 6) << lost.name;
    EXPECT_GE(slices["b"], 2) << lost.name;
  }
}

// What is left after a loss is a plan: one device more than without spares is the least, and here it is enough.
TEST(Spare, IsProvedBestWithOneDeviceMore) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 9000, 60ms)});
  const PlanAnswer bare = plan_by("elastic", problem);
  problem.fleet.spare = SparePolicy::one_device;
  const PlanAnswer answer = plan_by("elastic", problem);
  EXPECT_EQ(answer.devices, bare.devices + 1);
  EXPECT_EQ(answer.bound, bare.bound + 1);
  EXPECT_TRUE(bare.proved && answer.proved);
  EXPECT_EQ(problems_of(problem, answer), "");
}

// A run takes half as long on an H100, so that one of them carries what there is; of two that could stand in for each
// other there is only one. The A100s stand in.
TEST(Spare, TakesDevicesOfAnotherTypeWhereItsOwnAreTooFew) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 6000, 60ms), planned_service("b", 2000, 60ms)});
  problem.fleet.groups = {group_of("h100-80gb", 1, 1), group_of("a100-80gb", 1, 4)};
  ASSERT_EQ(plan_by("elastic", problem).devices, 1);
  problem.fleet.spare = SparePolicy::one_device;
  const PlanAnswer answer = plan_by("elastic", problem);
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_EQ(problems_of(problem, answer), "");
}

TEST(Spare, SaysHowManyDevicesAreMissing) {
  const FormulaModel model;
  Problem problem = problem_of(model, {planned_service("a", 100)});
  problem.fleet.groups = {group_of("a100-80gb", 1, 1)};
  problem.fleet.spare = SparePolicy::one_device;
  EXPECT_EQ(plan_by("elastic", problem).reason,
            "to survive the loss of any one device, the plan needs 2 of a100-80gb, but the fleet has 1; add 1 or set "
            "spare: none");
}

// Jobs.

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

// Explanations.

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

}  // namespace
}  // namespace tangram::plan

#include "plan/check_plan.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/text.h"
#include "plan/test_plans.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

// 10 ms a sample on one compute slice, half on two and so on; p99 a fifth more. Batches up to 8.
class EvenModel final : public LatencyModel {
 public:
  std::optional<Prediction> predict(const RunPoint& point) const override {
    const Geometry* geometry = find_geometry(point.device);
    if (point.batch > 8) return std::nullopt;
    const auto& profile = geometry->profiles[*find_profile(*geometry, point.mig_profile)];
    const double ms = 10.0 * static_cast<double>(point.batch * point.size) / profile.compute_slices;
    return Prediction{from_milliseconds(ms), from_milliseconds(1.2 * ms)};
  }
};

Service service_of(const std::string& name, double rate_per_s) {
  Service service;
  service.name = service.model = name;
  service.slo = {100ms, 99};
  service.traffic = PoissonTraffic{rate_per_s};
  return service;
}

const EvenModel kModel;

// Service a: 150 samples a second of size 1. Service b: half of 80 a second have size 1 and half size 4. A compute
// slice gives 100 samples of size 1, so a needs 1.5 of them and b, in buckets of its own, 0.4 + 1.6 = 2.
Problem problem_of() {
  Problem problem;
  DeviceGroup group;
  group.name = group.type = "a100-80gb";
  group.count = 2;
  group.profiles = ProfileSet::base;
  problem.fleet.groups = {group};
  Service b = service_of("b", 80);
  b.input_size = HistogramSize{"", {{1, 1}, {4, 1}}};
  problem.workload.services = {service_of("a", 150), b};
  problem.latency = &kModel;
  problem.options.rule = Rule::no_waiting;
  return problem;
}

Replica replica_b() { return {"b", {{1, 2}, {4, 2}}, 1}; }

Plan good_plan() {
  Plan plan = plan_of({{"a100-80gb-0", "a100-80gb", "2g@0 a:1:4, 2g@2"}});
  plan.devices[0].slices[1].replicas = {replica_b()};
  return plan;
}

std::string wrong(const Problem& problem, const Plan& plan) { return text::join(check_plan(problem, plan), "\n"); }

TEST(CheckPlan, AcceptsAPlanThatKeepsEverything) {
  EXPECT_EQ(wrong(problem_of(), good_plan()), "");
  const auto factors = load_factors(problem_of(), good_plan());
  EXPECT_NEAR(factors.at("a"), 200.0 / 150, 1e-9);
  EXPECT_NEAR(factors.at("b"), 1, 1e-9);
}

// a at 150/s takes 1.5 of the slices' time and b 2: on one 4g that both share, 4 / 3.5 remains.
TEST(CheckPlan, LetsServicesShareTheTimeOfASlice) {
  Plan plan = plan_of({{"a100-80gb-0", "a100-80gb", "4g@0 a:1:4"}});
  plan.devices[0].slices[0].replicas.push_back(replica_b());
  EXPECT_EQ(wrong(problem_of(), plan), "");
  EXPECT_NEAR(load_factors(problem_of(), plan).at("a"), 4 / 3.5, 1e-9);
}

// Each change breaks one thing, and the words name it.
TEST(CheckPlan, RefusesMutatedPlans) {
  struct Mutation {
    std::string expected;
    std::function<void(Problem&, Plan&)> apply;
  };
  const std::vector<Mutation> mutations{
      {"2g.20gb may not start at 1", [](Problem&, Plan& p) { p.devices[0].slices[1].slice.start = 1; }},
      {"the fleet has no a100-80gb", [](Problem& problem, Plan&) { problem.fleet.groups[0].type = "a30"; }},
      {"the name is used twice", [](Problem&, Plan& p) { p.devices.push_back(p.devices[0]); }},
      {"the plan uses 2 of a100-80gb, but the fleet has 1",
       [](Problem& problem, Plan& p) {
         problem.fleet.groups[0].count = 1;
         p.devices.push_back(p.devices[0]);
         p.devices[1].name = "a100-80gb-1";
       }},
      {"c is not among the services", [](Problem&, Plan& p) { p.devices[0].slices[0].replicas[0].service = "c"; }},
      {"a: no replica serves it", [](Problem&, Plan& p) { p.devices[0].slices[0].replicas.clear(); }},
      {"inputs reach size 4, but the largest bucket ends at 1",
       [](Problem&, Plan& p) { p.devices[0].slices[1].replicas[0].buckets.pop_back(); }},
      {"a: its slices can run only 66.67 % of the samples",
       [](Problem&, Plan& p) {
         p.devices[0].slices[0].slice = {0, 0};
       }},
      {"b: its slices can run only 50 % of the samples",
       [](Problem&, Plan& p) {
         p.devices[0].slices[1].slice = {0, 2};
       }},
      {"size 4 in batches of 8 takes 192 ms, but rule no_waiting allows less than 100 ms",
       [](Problem&, Plan& p) { p.devices[0].slices[1].replicas[0].buckets[1].batch_size = 8; }},
      {"size 4 in batches of 2 takes 48 ms, but rule certified allows less than 45 ms",
       [](Problem& problem, Plan&) {
         problem.options.rule = Rule::certified;
         problem.workload.services[1].slo.latency = 45ms;
       }},
      {"size 4 in batches of 2 takes 40 ms, but rule half allows less than 36 ms",
       [](Problem& problem, Plan&) {
         problem.options.rule = Rule::half;
         problem.workload.services[1].slo.latency = 80ms;
       }},
      {"has no known run time there",
       [](Problem&, Plan& p) { p.devices[0].slices[0].replicas[0].buckets[0].batch_size = 9; }},
      {"cannot hold a request of 5 samples",
       [](Problem& problem, Plan&) {
         problem.workload.services[0].samples = ConstantSize{5};
         problem.workload.services[0].traffic = PoissonTraffic{10};
       }},
      {"a: without a100-80gb-0, its slices can run only 0 % of the samples",
       [](Problem& problem, Plan&) { problem.fleet.spare = SparePolicy::one_device; }},
      {"a: its slices can run only 88.89 % of the samples",
       [](Problem& problem, Plan&) { problem.options.demand_factor = 1.5; }},
      {"a: its slices can run only 80 % of the samples",
       [](Problem& problem, Plan&) {
         problem.workload.services[0].job = Job{250 * 60, 60s};
       }},
      {"its geometry is not that of", [](Problem&, Plan& p) { p.devices[0].geometry.units = 9; }},
  };
  for (const auto& mutation : mutations) {
    Problem problem = problem_of();
    Plan plan = good_plan();
    mutation.apply(problem, plan);
    EXPECT_NE(wrong(problem, plan).find(mutation.expected), std::string::npos)
        << mutation.expected << " is missing in: " << wrong(problem, plan);
  }
}

// Two devices with the same slices: either may be lost.
TEST(CheckPlan, SeesThatASecondDeviceStandsInForTheFirst) {
  Problem problem = problem_of();
  problem.fleet.spare = SparePolicy::one_device;
  Plan plan = good_plan();
  plan.devices.push_back(plan.devices[0]);
  plan.devices[1].name = "a100-80gb-1";
  EXPECT_EQ(wrong(problem, plan), "");
}

}  // namespace
}  // namespace tangram::plan

// What check_plan() says about slices that services share: their memory, and who must not meet there.

#include <gtest/gtest.h>

#include "base/text.h"
#include "plan/check_plan.h"
#include "plan/test_plans.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

// Weights of 4,000 MiB, and 100 MiB more for each sample of a batch; "tiny" has 400 MiB of weights. A run takes 1 ms.
class HeavyModel final : public LatencyModel {
 public:
  std::optional<Prediction> predict(const RunPoint& point) const override {
    Prediction run{1ms, 1ms};
    run.memory_mib =
        *weights_mib(point.device, point.mig_profile, point.model) + 100.0 * static_cast<double>(point.batch);
    return run;
  }
  std::optional<double> weights_mib(std::string_view, std::string_view, std::string_view model) const override {
    return model == "tiny" ? 400 : 4000;
  }
  std::optional<Duration> load_time(std::string_view, std::string_view, std::string_view model) const override {
    return model == "untimed" ? std::nullopt : std::optional<Duration>(20ms);
  }
};

const HeavyModel kHeavyModel;

Problem sharing_problem(const std::vector<std::string>& models) {
  Problem problem;
  DeviceGroup group;
  group.name = group.type = "a100-80gb";
  group.profiles = ProfileSet::base;
  problem.fleet.groups = {group};
  for (std::size_t i = 0; i < models.size(); ++i) {
    Service service;
    service.name = std::string(1, static_cast<char>('a' + i));
    service.model = models[i];
    service.slo = {100ms, 99};
    service.traffic = PoissonTraffic{1};
    problem.workload.services.push_back(std::move(service));
  }
  problem.latency = &kHeavyModel;
  problem.options.rule = Rule::no_waiting;
  return problem;
}

std::string complaints(const Problem& problem, const std::string& slices) {
  return text::join(check_plan(problem, plan_of({{"a100-80gb-0", "a100-80gb", slices}})), "\n");
}

// 1g.10gb has 9.5 GiB, of which 8 % are kept free: 8,950 MiB. Two copies of 4,000 MiB and a batch of 4 take 8,400 MiB,
// a batch of 16 takes 9,600 MiB.
TEST(CheckPlanSharing, CountsTheWeightsOfAllAndTheLargestWorkingSet) {
  const Problem problem = sharing_problem({"x", "y"});
  EXPECT_EQ(complaints(problem, "1g@0 a:1:4 b:1:4"), "");
  const std::string wrong = complaints(problem, "1g@0 a:1:4 b:1:16");
  EXPECT_NE(wrong.find("a100-80gb-0 1g.10gb@0: the weights of 2 services take 8000 MiB and the largest run 1600 MiB "
                       "more, but the slice has only"),
            std::string::npos)
      << wrong;
}

// Three copies of 4,000 MiB do not fit into a 1g.10gb whatever the batch; on slices of their own they do.
TEST(CheckPlanSharing, RefusesMoreWeightsThanTheSliceHas) {
  const Problem problem = sharing_problem({"x", "y", "z"});
  EXPECT_NE(complaints(problem, "1g@0 a:1:1 b:1:1 c:1:1").find("the weights of 3 services take 12000 MiB"),
            std::string::npos);
  EXPECT_EQ(complaints(problem, "1g@0 a:1:1, 1g@1 b:1:1, 1g@2 c:1:1"), "");
  EXPECT_EQ(complaints(problem, "2g@0 a:1:1 b:1:1 c:1:1"), "");
}

// 20 ms to load a model leave no time where 20 ms are promised, and nothing is promised of a load that was never timed.
TEST(CheckPlanSharing, KnowsHowLongModelsOnDemandTakeToLoad) {
  Problem problem = sharing_problem({"x", "untimed"});
  Plan plan = plan_of({{"a100-80gb-0", "a100-80gb", "1g@0 a:1:4 b:1:4"}});
  auto& replicas = plan.devices[0].slices[0].replicas;
  replicas[0].load = ReplicaLoad::on_demand;
  EXPECT_EQ(text::join(check_plan(problem, plan), "; "), "");
  problem.workload.services[0].slo.latency = 20ms;
  EXPECT_NE(text::join(check_plan(problem, plan), "; ").find("takes 20 ms, but its Slo is 20 ms"), std::string::npos);
  problem.workload.services[0].slo.latency = 100ms;
  replicas[0].load = ReplicaLoad::start;
  replicas[1].load = ReplicaLoad::on_demand;
  EXPECT_NE(text::join(check_plan(problem, plan), "; ").find("load time is not known"), std::string::npos);
}

// One copy in a process and in four: the slice needs room for four, in whatever order the plan names them.
TEST(CheckPlanSharing, CountsTheMostProcessesOfACopyAndNoServiceTwice) {
  const Problem problem = sharing_problem({"tiny", "tiny"});
  Plan plan = plan_of({{"a100-80gb-0", "a100-80gb", "1g@0 a:1:4 b:1:4"}});
  auto& replicas = plan.devices[0].slices[0].replicas;
  replicas[0].processes = 30;
  const std::string first = text::join(check_plan(problem, plan), "; ");
  EXPECT_NE(first.find("take 12000 MiB"), std::string::npos) << first;
  std::swap(replicas[0].processes, replicas[1].processes);
  EXPECT_NE(text::join(check_plan(problem, plan), "; ").find("take 12000 MiB"), std::string::npos);
  plan = plan_of({{"a100-80gb-0", "a100-80gb", "1g@0 a:1:4 a:1:4 b:1:4"}});
  EXPECT_NE(text::join(check_plan(problem, plan), "; ").find("a is on it twice"), std::string::npos);
}

TEST(CheckPlanSharing, CountsTheSameWeightsOnce) {
  Problem problem = sharing_problem({"x", "x", "x", "tiny"});
  EXPECT_EQ(complaints(problem, "1g@0 a:1:4 b:1:4 c:1:4 d:1:4"), "");
  // Fine-tunes are copies of their own.
  problem.workload.services[1].weights = "tuned-1";
  problem.workload.services[2].weights = "tuned-2";
  EXPECT_NE(complaints(problem, "1g@0 a:1:4 b:1:4 c:1:4 d:1:4").find("take 12400 MiB"), std::string::npos);
  problem.workload.services[2].weights = "tuned-1";
  // Two copies, the tiny one and the largest run: 8,800 MiB.
  EXPECT_EQ(complaints(problem, "1g@0 a:1:4 b:1:4 c:1:4 d:1:4"), "");
}

// Three copies of 4,000 MiB on a slice with 8,950 MiB. With two of them on demand, one stays loaded and one more is
// there at a time; with one of them on demand, two stay and the third does not fit beside them.
TEST(CheckPlanSharing, CountsTheLargestModelOnDemandBesideThoseThatStayLoaded) {
  Problem problem = sharing_problem({"x", "y", "z"});
  Plan plan = plan_of({{"a100-80gb-0", "a100-80gb", "1g@0 a:1:4 b:1:4 c:1:4"}});
  auto& replicas = plan.devices[0].slices[0].replicas;
  replicas[1].load = replicas[2].load = ReplicaLoad::on_demand;
  EXPECT_EQ(text::join(check_plan(problem, plan), "; "), "");
  replicas[1].load = ReplicaLoad::start;
  const std::string wrong = text::join(check_plan(problem, plan), "; ");
  EXPECT_NE(wrong.find("take 8000 MiB, the largest of those on demand 4000 MiB and the largest run 400 MiB more"),
            std::string::npos)
      << wrong;
  // A service that runs the same copy from the start keeps it loaded.
  problem = sharing_problem({"x", "x", "tiny"});
  replicas[0].load = ReplicaLoad::on_demand;
  replicas[1].load = ReplicaLoad::start;
  EXPECT_EQ(text::join(check_plan(problem, plan), "; "), "");
  replicas[0].buckets[0].batch_size = 50;
  EXPECT_NE(text::join(check_plan(problem, plan), "; ").find("take 4000 MiB, the largest of those on demand 400 MiB"),
            std::string::npos);
}

TEST(CheckPlanSharing, RefusesAServiceThatWantsSlicesOfItsOwnBesideAnother) {
  Problem problem = sharing_problem({"tiny", "tiny"});
  EXPECT_EQ(complaints(problem, "1g@0 a:1:1 b:1:1"), "");
  problem.workload.services[0].isolation = Isolation::own_slices;
  EXPECT_EQ(complaints(problem, "1g@0 a:1:1 b:1:1"), "a100-80gb-0 1g.10gb@0: a and b must not share a slice");
  EXPECT_EQ(complaints(problem, "1g@0 a:1:1, 1g@1 b:1:1"), "");
}

// One of the two asks for it; the tenant of the other decides.
TEST(CheckPlanSharing, RefusesServicesOfTwoTenantsWhereOneIsIsolatedByTenant) {
  Problem problem = sharing_problem({"tiny", "tiny"});
  problem.workload.services[0].isolation = Isolation::tenant;
  problem.workload.services[0].tenant = "search";
  problem.workload.services[1].tenant = "mail";
  EXPECT_EQ(complaints(problem, "1g@0 a:1:1 b:1:1"), "a100-80gb-0 1g.10gb@0: a and b must not share a slice");
  problem.workload.services[1].tenant = "search";
  EXPECT_EQ(complaints(problem, "1g@0 a:1:1 b:1:1"), "");
}

TEST(CheckPlanSharing, RefusesServicesOfTwoShareGroups) {
  Problem problem = sharing_problem({"tiny", "tiny", "tiny"});
  problem.workload.services[0].share_group = "night";
  EXPECT_EQ(complaints(problem, "1g@0 a:1:1 b:1:1 c:1:1"),
            "a100-80gb-0 1g.10gb@0: a and b must not share a slice\n"
            "a100-80gb-0 1g.10gb@0: a and c must not share a slice");
  problem.workload.services[1].share_group = "night";
  EXPECT_EQ(complaints(problem, "1g@0 a:1:1 b:1:1, 1g@1 c:1:1"), "");
}

}  // namespace
}  // namespace tangram::plan

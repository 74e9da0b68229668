#include "plan/certify_plan.h"

#include <gtest/gtest.h>

#include "core/geometry.h"

namespace tangram::plan {
namespace {

// A promise holds on three slices or more.
class ThreeSlices final : public Certifier {
 public:
  Verdict certify(const Service&, std::span<const ReplicaGroup> groups, bool confirm) override {
    confirmed = confirmed && confirm;
    int slices = 0;
    for (const auto& group : groups) slices += group.count;
    return {.holds = slices >= 3};
  }
  std::vector<Verdict> certify_together(std::span<const Service> services, std::span<const SharedGroup> groups,
                                        bool confirm) override {
    confirmed = confirmed && confirm;
    Asked asked;
    int slices = 0;
    for (const auto& service : services) asked.services.push_back(service.name);
    for (const auto& group : groups) {
      asked.counts.push_back(group.count);
      slices += group.count;
    }
    together.push_back(asked);
    return std::vector<Verdict>(services.size(), Verdict{.holds = slices >= 3});
  }

  struct Asked {
    std::vector<std::string> services;
    std::vector<int> counts;
  };
  std::vector<Asked> together;
  bool confirmed = true;
};

Plan slices_for(const std::vector<std::vector<std::string>>& services_by_slice) {
  PlannedDevice device;
  device.name = device.type = "a100-80gb";
  device.geometry = *find_geometry("a100-80gb");
  const auto profile = find_profile(device.geometry, "1g.10gb");
  for (std::size_t i = 0; i < services_by_slice.size(); ++i) {
    PlannedSlice slice{{static_cast<std::uint16_t>(*profile), static_cast<std::uint16_t>(i)}, {}};
    for (const auto& name : services_by_slice[i]) slice.replicas.push_back({name, {{1, 8}}, 1});
    device.slices.push_back(slice);
  }
  return Plan{{device}};
}

Problem problem_naming(const std::vector<std::string>& names) {
  Problem problem;
  for (const auto& name : names) {
    Service service;
    service.name = service.model = name;
    problem.workload.services.push_back(service);
  }
  return problem;
}

TEST(CertifyPlan, AsksAboutAllReplicasOfAServiceTogether) {
  ThreeSlices certifier;
  const auto checked =
      certify_plan(problem_naming({"a", "b"}), slices_for({{"a"}, {"b"}, {"a"}, {"a"}, {"b"}}), certifier);
  ASSERT_EQ(checked.services.size(), 2u);
  ASSERT_EQ(checked.services[0].groups.size(), 1u);
  EXPECT_EQ(checked.services[0].groups[0].count, 3);
  EXPECT_TRUE(checked.services[0].verdict->holds);
  EXPECT_FALSE(checked.services[1].verdict->holds);
  EXPECT_FALSE(checked.all_hold());
  EXPECT_TRUE(certifier.confirmed);
}

TEST(CertifyPlan, HoldsIfEveryServiceDoes) {
  ThreeSlices certifier;
  EXPECT_TRUE(certify_plan(problem_naming({"a"}), slices_for({{"a"}, {"a"}, {"a"}}), certifier).all_hold());
}

TEST(CertifyPlan, DoesNotCertifyAServiceWithoutReplicas) {
  ThreeSlices certifier;
  const auto checked = certify_plan(problem_naming({"a", "b"}), slices_for({{"a"}, {"a"}, {"a"}}), certifier);
  EXPECT_TRUE(checked.services[0].verdict->holds);
  EXPECT_FALSE(checked.services[1].verdict.has_value());
  EXPECT_EQ(checked.services[1].reason, "the plan has no replica of it");
  EXPECT_FALSE(checked.all_hold());
}

// a and b meet on the first slice, b and c on the second: one question about all three. d has slices of its own.
TEST(CertifyPlan, AsksAboutServicesThatAreConnectedBySharedSlicesTogether) {
  ThreeSlices certifier;
  const auto checked = certify_plan(problem_naming({"a", "b", "c", "d"}),
                                    slices_for({{"a", "b"}, {"b", "c"}, {"d"}, {"a", "b"}, {"c"}}), certifier);
  ASSERT_EQ(certifier.together.size(), 1u);
  EXPECT_EQ(certifier.together[0].services, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(certifier.together[0].counts, (std::vector<int>{2, 1, 1}));
  EXPECT_TRUE(checked.services[0].verdict->holds);
  EXPECT_TRUE(checked.services[2].verdict->holds);
  EXPECT_FALSE(checked.services[3].verdict->holds) << "d has one slice";
  EXPECT_EQ(checked.services[0].shares_with, (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(checked.services[1].groups.size(), 1u) << "b is alike on all its slices";
  EXPECT_EQ(checked.services[1].groups[0].count, 3);
}

// The plan lets 2 requests/s of a through, and a sends 5: the rest is rejected, whatever the simulation says.
TEST(CertifyPlan, DoesNotHoldForAServiceThatSendsMoreThanThePlanHasRoomFor) {
  ThreeSlices certifier;
  Plan plan = slices_for({{"a", "b"}, {"a", "b"}, {"a", "b"}});
  for (auto& slice : plan.devices[0].slices) slice.replicas[0].rate_max_per_s = 2;
  Problem problem = problem_naming({"a", "b"});
  problem.workload.services[0].traffic = PoissonTraffic{5};
  const auto checked = certify_plan(problem, plan, certifier);
  EXPECT_FALSE(checked.services[0].verdict.has_value());
  EXPECT_EQ(checked.services[0].reason, "the plan has room for 2 requests/s of it, and it sends up to 5");
  EXPECT_TRUE(checked.services[1].verdict->holds);
  EXPECT_FALSE(checked.all_hold());
}

TEST(CertifyPlan, GivesNoVerdictForAServiceThatSharesASliceWithAJob) {
  ThreeSlices certifier;
  Problem problem = problem_naming({"a", "b"});
  problem.workload.services[1].job = Job{};
  const auto checked = certify_plan(problem, slices_for({{"a", "b"}, {"a"}, {"a"}}), certifier);
  EXPECT_EQ(checked.services[0].reason, "it shares slices with the job b, which is not simulated");
  EXPECT_FALSE(checked.services[0].verdict || checked.services[1].verdict);
}

}  // namespace
}  // namespace tangram::plan

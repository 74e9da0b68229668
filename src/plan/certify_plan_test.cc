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
  const auto checked = certify_plan(problem_naming({"a", "b"}), slices_for({{"a"}, {"b"}, {"a"}, {"a"}, {"b"}}), certifier);
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

TEST(CertifyPlan, DoesNotCertifyServicesThatShareASliceOrHaveNone) {
  ThreeSlices certifier;
  const auto checked =
      certify_plan(problem_naming({"a", "b", "c"}), slices_for({{"a", "b"}, {"a"}, {"a"}, {"b"}, {"b"}}), certifier);
  EXPECT_FALSE(checked.services[0].verdict.has_value());
  EXPECT_EQ(checked.services[0].reason, "it shares a slice with another service");
  EXPECT_EQ(checked.services[2].reason, "the plan has no replica of it");
  EXPECT_FALSE(checked.all_hold());
}

}  // namespace
}  // namespace tangram::plan

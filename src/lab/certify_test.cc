#include "lab/certify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/geometry.h"
#include "plan/check_plan.h"
#include "plan/replan.h"

namespace tangram::lab {
namespace {

using namespace std::chrono_literals;

// A sample takes 10 ms over the compute slices of its slice, and a batch 2 ms more; p99 a twentieth above the mean.
class SharedWork final : public LatencyModel {
 public:
  std::optional<Prediction> predict(const RunPoint& point) const override {
    const Geometry* geometry = find_geometry(point.device);
    if (geometry == nullptr || point.batch > 16) return std::nullopt;
    const auto profile = find_profile(*geometry, point.mig_profile);
    if (!profile) return std::nullopt;
    const double ms = 2 + 10.0 * static_cast<double>(point.batch) / geometry->profiles[*profile].compute_slices;
    return Prediction{from_milliseconds(ms), from_milliseconds(1.05 * ms)};
  }
};

Service service_of(const std::string& name, double rate_per_s) {
  Service service;
  service.name = service.model = name;
  service.slo = {100ms, 99};
  service.traffic = PoissonTraffic{rate_per_s};
  return service;
}

plan::ReplicaGroup slices_of(const std::string& service, int count) {
  return {"a100-80gb", "1g.10gb", 1, {service, {{1, 8}}, 1}, count};
}

// Batches of eight take 82 ms on one compute slice, so that one slice runs 98 samples a second at most: of 110/s it
// keeps no promise, and three slices keep it with ease.
TEST(Certifier, AcceptsSlicesThatKeepThePromiseAndNoFewer) {
  const SharedWork model;
  SimulatedCertifier certifier(model);
  const Service service = service_of("a", 110);
  const std::vector<plan::ReplicaGroup> three{slices_of("a", 3)};
  const std::vector<plan::ReplicaGroup> one{slices_of("a", 1)};
  const auto kept = certifier.certify(service, three, true);
  EXPECT_TRUE(kept.holds);
  EXPECT_LE(kept.attainment_low, kept.attainment);
  EXPECT_LE(kept.latency, 100ms);
  EXPECT_FALSE(certifier.certify(service, one, true).holds);
}

TEST(Certifier, AnswersTheSameQuestionOnce) {
  const SharedWork model;
  SimulatedCertifier certifier(model);
  const std::vector<plan::ReplicaGroup> three{slices_of("a", 3)};
  const auto first = certifier.certify(service_of("a", 60), three, false);
  const auto requests = certifier.requests_simulated();
  EXPECT_GT(requests, 0u);
  EXPECT_EQ(certifier.certify(service_of("a", 60), three, false).attainment, first.attainment);
  EXPECT_EQ(certifier.requests_simulated(), requests);
}

// The same service under another name is the same question. The same name and the same mean rate in bursts is another.
TEST(Certifier, TellsServicesApartByContentAndNotByName) {
  const SharedWork model;
  SimulatedCertifier certifier(model);
  const std::vector<plan::ReplicaGroup> three{slices_of("a", 3)};
  const auto first = certifier.certify(service_of("a", 60), three, false);
  const auto requests = certifier.requests_simulated();
  Service renamed = service_of("a", 60);
  renamed.name = "b";
  EXPECT_EQ(certifier.certify(renamed, three, false).attainment, first.attainment);
  EXPECT_EQ(certifier.requests_simulated(), requests);
  Service bursts = service_of("a", 60);
  bursts.traffic = BurstTraffic{.rate_per_s = 60};
  certifier.certify(bursts, three, false);
  EXPECT_GT(certifier.requests_simulated(), requests);
}

// Where on the devices the replicas of a service stand.
std::vector<std::string> places_of(const Plan& plan, const std::string& service) {
  std::vector<std::string> places;
  for (const auto& device : plan.devices) {
    for (const auto& slice : device.slices) {
      for (const auto& replica : slice.replicas) {
        if (replica.service == service) places.push_back(device.name + "@" + std::to_string(slice.slice.start));
      }
    }
  }
  std::ranges::sort(places);
  return places;
}

// The rate of one service trebles. Its new slices are simulated before they are taken; the other two stay where they
// are, and are not simulated again.
TEST(CertifiedReplan, SimulatesWhatChangesAndLeavesTheRestAlone) {
  const SharedWork model;
  SimulatedCertifier certifier(model, {.requests_look = 100'000, .requests_confirm = 200'000});
  plan::Problem problem;
  DeviceGroup group;
  group.name = group.type = "a100-80gb";
  group.profiles = ProfileSet::base;
  problem.fleet.groups = {group};
  problem.workload.services = {service_of("a", 60), service_of("b", 150), service_of("c", 90)};
  problem.latency = &model;
  problem.certifier = &certifier;
  const plan::PlanAnswer before = plan::find_planner("elastic")->make()->plan(problem);
  ASSERT_EQ(before.status, plan::PlanStatus::planned) << before.reason;
  problem.workload.services[1] = service_of("b", 450);
  const plan::Replanned after = plan::replan(problem, before);
  ASSERT_EQ(after.answer.status, plan::PlanStatus::planned) << after.answer.reason;
  EXPECT_EQ(after.changed, std::vector<std::string>{"b"});
  EXPECT_TRUE(plan::check_plan(problem, after.answer.plan).empty());
  EXPECT_EQ(places_of(after.answer.plan, "a"), places_of(before.plan, "a"));
  EXPECT_EQ(places_of(after.answer.plan, "c"), places_of(before.plan, "c"));
  const auto& b = after.answer.services[1];
  ASSERT_TRUE(b.verdict.has_value());
  EXPECT_TRUE(b.verdict->holds);
  // With numbers that no search has seen, the promise holds as well.
  SimulatedCertifier other(model, {.seed = 9});
  EXPECT_GE(other.certify(problem.workload.services[1], b.groups, true).attainment, 0.99);
}

}  // namespace
}  // namespace tangram::lab

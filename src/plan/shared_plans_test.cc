// Spare devices and new rates for plans in which services share slices.

#include <gtest/gtest.h>

#include "base/text.h"
#include "plan/check_plan.h"
#include "plan/detail/shared_spare.h"
#include "plan/replan.h"
#include "plan/test_plans.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

// A batch takes 4 ms and 1 ms for each sample, on every slice. 500 MiB of weights and 10 MiB for each sample.
class SmallNetworks final : public LatencyModel {
 public:
  std::optional<Prediction> predict(const RunPoint& point) const override {
    const Duration run = from_milliseconds(4 + static_cast<double>(point.batch));
    return Prediction{run, run, 500 + 10.0 * static_cast<double>(point.batch)};
  }
  std::optional<double> weights_mib(std::string_view, std::string_view, std::string_view) const override { return 500; }
};

// A promise holds while its slices have 20 requests/s each of all services on them. Counts what it was asked.
class TwentyOnEach final : public Certifier {
 public:
  Verdict certify(const Service& service, std::span<const ReplicaGroup> groups, bool) override {
    double slices = 0;
    for (const auto& group : groups) slices += group.count;
    return verdict(planning(service) <= 20 * slices);
  }
  std::vector<Verdict> certify_together(std::span<const Service> services, std::span<const SharedGroup> groups,
                                        bool) override {
    ++together;
    double rate = 0;
    double slices = 0;
    for (const auto& service : services) rate += planning(service);
    for (const auto& group : groups) slices += group.count;
    return std::vector<Verdict>(services.size(), verdict(rate <= 20 * slices));
  }
  int together = 0;

 private:
  static double planning(const Service& service) { return std::get<PoissonTraffic>(service.traffic).rate_per_s; }
  static Verdict verdict(bool holds) {
    return {.holds = holds, .attainment = holds ? 1.0 : 0.5, .attainment_low = holds ? 1.0 : 0.4, .latency = 5ms};
  }
};

class SharedPlans : public testing::Test {
 protected:
  SharedPlans() {
    DeviceGroup group;
    group.name = "g";
    group.type = "a100-80gb";
    group.profiles = ProfileSet::base;
    problem.fleet.groups = {group};
    problem.latency = &networks;
    problem.certifier = &certifier;
    problem.options.sharing = Sharing::all;
    // Ten services with weights of their own: two more than seven slices, and one device suffices where they share.
    for (int i = 0; i < 10; ++i) {
      Service service;
      service.name = "s" + std::to_string(i);
      service.model = "net";
      service.weights = service.name;
      service.slo = {200ms, 99};
      service.traffic = PoissonTraffic{1};
      problem.workload.services.push_back(service);
    }
  }
  PlanAnswer plan() const { return find_planner("elastic")->make()->plan(problem); }

  SmallNetworks networks;
  TwentyOnEach certifier;
  Problem problem;
};

// One device carries all ten. With another one any of the two can be lost, and each of them holds all ten.
TEST_F(SharedPlans, SurviveTheLossOfADevice) {
  ASSERT_EQ(plan().devices, 1);
  problem.fleet.spare = SparePolicy::one_device;
  const int before = certifier.together;
  const PlanAnswer answer = plan();
  ASSERT_EQ(answer.status, PlanStatus::planned) << answer.reason;
  EXPECT_EQ(answer.devices, 2);
  EXPECT_TRUE(answer.proved);
  EXPECT_GT(certifier.together, before);
  EXPECT_EQ(text::join(check_plan(problem, answer.plan), "\n"), "");
  ASSERT_TRUE(detail::has_shared_slices(answer.plan));
  for (std::size_t lost = 0; lost < answer.plan.devices.size(); ++lost) {
    Plan left = answer.plan;
    left.devices.erase(left.devices.begin() + static_cast<std::ptrdiff_t>(lost));
    std::size_t served = 0;
    for (const auto& set : shared_sets(left)) served += set.services.size();
    EXPECT_EQ(served, 10u) << lost;
  }
  // Slices of their own: ten services take two devices, and their spare a third at least.
  ASSERT_TRUE(answer.price_alone.has_value());
  EXPECT_GT(*answer.price_alone, 2);
}

TEST_F(SharedPlans, StayAsTheyAreWhileTheyKeepTheirPromisesAtTheNewRates) {
  const PlanAnswer before = plan();
  ASSERT_TRUE(detail::has_shared_slices(before.plan));
  problem.workload.services[3].traffic = PoissonTraffic{2};
  const Replanned after = replan(problem, before);
  EXPECT_FALSE(after.from_scratch);
  ASSERT_EQ(after.answer.plan.devices.size(), before.plan.devices.size());
  // Only the limit of the service has changed.
  for (std::size_t i = 0; i < before.plan.devices[0].slices.size(); ++i) {
    const auto& was = before.plan.devices[0].slices[i].replicas;
    const auto& is = after.answer.plan.devices[0].slices[i].replicas;
    ASSERT_EQ(was.size(), is.size());
    for (std::size_t r = 0; r < was.size(); ++r) {
      EXPECT_EQ(was[r].service, is[r].service);
      const bool limited = is[r].service == "s3" && is[r].rate_max_per_s;
      EXPECT_TRUE(!limited || *is[r].rate_max_per_s == 2);
    }
  }
}

// 100 requests/s take five slices by the certifier's rule: the plan is made anew.
TEST_F(SharedPlans, AreMadeAnewWhereTheyNoLongerHold) {
  const PlanAnswer before = plan();
  problem.workload.services[3].traffic = PoissonTraffic{100};
  const Replanned after = replan(problem, before);
  EXPECT_TRUE(after.from_scratch);
  ASSERT_EQ(after.answer.status, PlanStatus::planned);
  EXPECT_EQ(text::join(check_plan(problem, after.answer.plan), "\n"), "");
}

}  // namespace
}  // namespace tangram::plan

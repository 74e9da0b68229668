#include "plan/replica_capacity.h"

#include <gtest/gtest.h>

#include "plan/test_plans.h"
#include "plan/transition.h"

namespace tangram::plan {
namespace {

// A millisecond for each sample and ten units of size, whatever the slice; nothing beyond batch 16.
class Linear final : public LatencyModel {
 public:
  std::optional<Prediction> predict(const RunPoint& point) const override {
    if (point.batch > 16) return std::nullopt;
    const auto mean = from_milliseconds(static_cast<double>(point.batch * point.size) / 10);
    return Prediction{mean, mean};
  }
};

Workload workload_of(SizeDistribution sizes) {
  Service service;
  service.name = "a";
  service.model = "net";
  service.input_size = std::move(sizes);
  return {{service}};
}

// A sample of size 10 takes 1 ms: 1000 a second, twice that with two processes, half of it beside a neighbour.
TEST(ReplicaCapacity, CountsProcessesAndNeighbours) {
  const Linear model;
  const Workload workload = workload_of(ConstantSize{10});
  const Plan plan = plan_of({{"g-0", "a30", "2g@0 a:10:8x2 b:10:8, 2g@2 a:10:8"}});
  const auto capacity = capacity_by(workload, model);
  const PlannedDevice& device = plan.devices[0];
  EXPECT_NEAR(capacity(device, device.slices[1], device.slices[1].replicas[0]), 1000, 1e-6);
  EXPECT_NEAR(capacity(device, device.slices[0], device.slices[0].replicas[0]), 1000, 1e-6);
  EXPECT_EQ(capacity(device, device.slices[0], device.slices[0].replicas[1]), 0);  // b is not a service.
}

// Three quarters of the inputs are padded to 10 (1 ms) and one to 40 (4 ms). Together 1.75 ms: 571.4 a second. Apart,
// the replica for the small ones answers 1000 small ones a second, the other 250 large ones.
TEST(ReplicaCapacity, WeighsBucketsByTheirInputs) {
  const Linear model;
  const Workload workload = workload_of(HistogramSize{"", {{10, 3}, {40, 1}}});
  Plan plan = plan_of({{"g-0", "a30", "1g@0 a:10:8, 1g@1 a:40:8, 1g@2 a:10:8"}});
  plan.devices[0].slices[2].replicas[0].buckets.push_back({40, 8});
  const auto capacity = capacity_by(workload, model);
  const PlannedDevice& device = plan.devices[0];
  const auto of = [&](std::size_t i) { return capacity(device, device.slices[i], device.slices[i].replicas[0]); };
  EXPECT_NEAR(of(0), 1000, 1e-6);
  EXPECT_NEAR(of(1), 250, 1e-6);
  EXPECT_NEAR(of(2), 1000 / 1.75, 1e-6);
}

// A replica of buckets 20 and 40: half of the inputs are padded to 20 (2 ms) and half to 40 (4 ms), 333.3 a second. A
// replica beside it that takes inputs up to 10 does not change that, in this plan or in the one that follows.
TEST(ReplicaCapacity, DoesNotDependOnOtherReplicas) {
  const Linear model;
  const Workload workload = workload_of(HistogramSize{"", {{10, 1}, {20, 1}, {40, 2}}});
  Plan plan = plan_of({{"g-0", "a30", "1g@0 a:20:8"}});
  plan.devices[0].slices[0].replicas[0].buckets.push_back({40, 8});
  Plan beside = plan_of({{"g-0", "a30", "1g@0 a:20:8, 1g@1 a:10:8"}});
  beside.devices[0].slices[0].replicas[0].buckets.push_back({40, 8});
  TransitionOptions options;
  options.capacity = capacity_by(workload, model);
  const double alone = transition(plan, plan, options)->capacity_before.at("a");
  EXPECT_NEAR(alone, 1000.0 / 3, 1e-6);
  EXPECT_DOUBLE_EQ(transition(plan, beside, options)->capacity_before.at("a"), alone);
  EXPECT_DOUBLE_EQ(transition(beside, plan, options)->capacity_after.at("a"), alone);
}

TEST(ReplicaCapacity, NamesRunsThatAreNotKnown) {
  const Linear model;
  const Workload workload = workload_of(ConstantSize{10});
  const Plan plan = plan_of({{"g-0", "a30", "2g@0 a:10:32 c:10:8"}});
  EXPECT_EQ(without_run_times(plan, workload, model),
            (std::set<std::string>{"c, which is not among the services", "net on 2g.12gb of a30, batch 32, size 10"}));
}

}  // namespace
}  // namespace tangram::plan

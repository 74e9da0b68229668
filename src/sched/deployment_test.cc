#include "sched/deployment.h"

#include <gtest/gtest.h>

#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;

// 1 ms for each sample of size 1; memory for `samples_max` samples of size 10.
class SimpleModel final : public LatencyModel {
 public:
  std::optional<Prediction> predict(const RunPoint& point) const override {
    if (point.batch * point.size > 40) return std::nullopt;
    return Prediction{point.batch * point.size * 1ms, point.batch * point.size * 2ms};
  }
};

Plan plan_with(std::vector<PlannedSlice> slices) {
  const Geometry& geometry = *find_geometry("a100-40gb");
  return {{{"gpu-0", geometry.type, geometry, std::move(slices)}}};
}

Slice slice(std::string_view text) { return parse_layout(*find_geometry("a100-40gb"), text).layout.slices[0]; }

Workload workload() {
  Service a;
  a.name = a.model = "a";
  Service b;
  b.name = b.model = "b";
  return {{a, b}};
}

// Slices of one profile with the same replicas form a pool; pools stand smallest first; slices without replicas are no
// place to run.
TEST(Deployment, GroupsSlicesIntoPoolsSmallestFirst) {
  const Replica a{"a", {{4, 2}}, 1};
  const auto deployment = *compile(plan_with({{slice("2g@0"), {a}},
                                              {slice("1g@2"), {a}},
                                              {slice("1g@3"), {a}},
                                              {slice("1g@4"), {Replica{"a", {{4, 1}}, 1}}},
                                              {slice("1g@5"), {}}}),
                                   workload(), SimpleModel());
  ASSERT_EQ(deployment.pools.size(), 3u);
  EXPECT_EQ(deployment.pools[2].kind, "a100-40gb/2g.10gb");
  ASSERT_EQ(deployment.places.size(), 4u);
  EXPECT_EQ(deployment.places[0].pool, PoolId(2));
  EXPECT_EQ(deployment.places[1].pool, deployment.places[2].pool);
  EXPECT_NE(deployment.places[1].pool, deployment.places[3].pool);
  EXPECT_EQ(deployment.services[0].pools.size(), 3u);
  EXPECT_TRUE(deployment.services[1].pools.empty());
  EXPECT_EQ(deployment.services[0].samples_max, 2);
}

// One replica names edges 4 and 10, the other 8: the service has three buckets, and each replica runs those that one of
// its own covers, at that one's limit.
TEST(Deployment, JoinsTheBucketsOfAllReplicas) {
  const auto deployment = *compile(
      plan_with({{slice("1g@0"), {Replica{"a", {{4, 6}, {10, 3}}, 1}}}, {slice("2g@2"), {Replica{"a", {{8, 5}}, 1}}}}),
      workload(), SimpleModel());
  EXPECT_EQ(deployment.services[0].edges, (std::vector<std::int64_t>{4, 8, 10}));
  EXPECT_EQ(deployment.pools[0].services[0].batch_max, (std::vector<std::int32_t>{6, 3, 3}));
  EXPECT_EQ(deployment.pools[1].services[0].batch_max, (std::vector<std::int32_t>{5, 5, 0}));
  EXPECT_EQ(deployment.pools[1].services[0].latency.mean_ns(1, 3), 24'000'000);
  EXPECT_EQ(deployment.pools[1].services[0].latency.p99_ns(1, 3), 48'000'000);
}

// Memory holds 40 / 10 = 4 samples of size 10: the planned batch of 9 is cut to 4.
TEST(Deployment, ShortensABatchThatDoesNotFitIntoMemory) {
  const auto deployment =
      *compile(plan_with({{slice("1g@0"), {Replica{"a", {{10, 9}}, 1}}}}), workload(), SimpleModel());
  EXPECT_EQ(deployment.pools[0].services[0].batch_max, (std::vector<std::int32_t>{4}));
  EXPECT_EQ(deployment.services[0].samples_max, 4);
}

TEST(Deployment, RefusesWhatDoesNotFitAtAllAndUnknownServices) {
  const auto large = compile(plan_with({{slice("1g@0"), {Replica{"a", {{41, 1}}, 1}}}}), workload(), SimpleModel());
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().message,
            "gpu-0: a has no prediction for a on 1g.5gb at size 41: not measured, or it does not fit into memory");
  const auto unknown = compile(plan_with({{slice("1g@0"), {Replica{"c", {{4, 1}}, 1}}}}), workload(), SimpleModel());
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().message, "gpu-0: the plan serves c, which is not in the services file");
}

TEST(Deployment, MakesAPlaceOfEachProcess) {
  const auto deployment =
      *compile(plan_with({{slice("1g@0"), {Replica{"a", {{4, 1}}, 3}}}}), workload(), SimpleModel());
  ASSERT_EQ(deployment.places.size(), 3u);
  EXPECT_EQ(deployment.places[2].process, 2);
}

// Services a and b run one copy, loaded with the slice and on demand: the copy has the name of the first, and they do
// not share batches, because only one of them may have to load it.
TEST(Deployment, NamesCopiesAndKeepsModelsOnDemandApart) {
  Workload both = workload();
  both.services[1].model = "a";
  const Replica start{"a", {{4, 1}}, 1};
  const Replica on_demand{"b", {{4, 1}}, 1, ReplicaLoad::on_demand};
  const auto deployment = *compile(plan_with({{slice("1g@0"), {start, on_demand}}}), both, SimpleModel());
  ASSERT_EQ(deployment.pools[0].services.size(), 2u);
  EXPECT_FALSE(deployment.pools[0].services[0].model.on_demand);
  EXPECT_TRUE(deployment.pools[0].services[1].model.on_demand);
  EXPECT_EQ(deployment.pools[0].services[1].model.copy, ServiceId(0));
  EXPECT_GT(deployment.pools[0].memory_mib, 4000);
}

// Edges 16 and 64: the edge itself is still in its bucket, and what is above all has the number of buckets.
TEST(DeployedService, PutsASizeIntoTheFirstBucketThatCoversIt) {
  DeployedService service;
  service.edges = {16, 64};
  EXPECT_EQ(service.bucket_of(1), 0u);
  EXPECT_EQ(service.bucket_of(16), 0u);
  EXPECT_EQ(service.bucket_of(17), 1u);
  EXPECT_EQ(service.bucket_of(65), 2u);
  EXPECT_FALSE(service.takes(2, 1));
  EXPECT_FALSE(service.takes(1, 2));
  EXPECT_TRUE(service.takes(1, 1));
}

// a and c run the same copy on the same slices: c waits and runs with a, and the pool has one entry for both. The limit
// of c's rate is its own.
TEST(Deployment, LetsServicesOfOneCopyShareQueues) {
  Workload both = workload();
  Service c = both.services[0];
  c.name = "c";
  both.services.push_back(c);
  const Replica a{"a", {{4, 2}}, 1};
  Replica with_limit{"c", {{4, 2}}, 1};
  with_limit.rate_max_per_s = 7;
  const Plan plan = plan_with({{slice("1g@0"), {a, with_limit}}, {slice("1g@1"), {with_limit, a}}});
  const auto deployment = *compile(plan, both, SimpleModel());
  EXPECT_EQ(deployment.services[2].joins, ServiceId(0));
  EXPECT_EQ(deployment.services[2].pools, deployment.services[0].pools);
  EXPECT_EQ(deployment.services[2].rate_max_per_s, 7);
  EXPECT_EQ(deployment.services[0].rate_max_per_s, 0);
  for (const auto& pool : deployment.pools) EXPECT_EQ(pool.services.size(), 1u);
}

// Other weights, other buckets and other slices keep services of one model apart.
TEST(Deployment, KeepsServicesOfOtherCopiesBucketsAndSlicesApart) {
  Workload both = workload();
  both.services[1].model = "a";
  const Replica a{"a", {{4, 2}}, 1};
  const Replica b{"b", {{4, 2}}, 1};
  const auto joins = [&](const Plan& plan) {
    return compile(plan, both, SimpleModel())->services[1].joins.has_value();
  };
  EXPECT_TRUE(joins(plan_with({{slice("1g@0"), {a, b}}})));
  EXPECT_FALSE(joins(plan_with({{slice("1g@0"), {a, b}}, {slice("1g@1"), {a}}})));
  EXPECT_FALSE(joins(plan_with({{slice("1g@0"), {a, Replica{"b", {{4, 1}}, 1}}}})));
  both.services[1].weights = "fine-tune";
  EXPECT_FALSE(joins(plan_with({{slice("1g@0"), {a, b}}})));
}

}  // namespace
}  // namespace tangram::sched

#include "sched/slice_memory.h"

#include <gtest/gtest.h>

namespace tangram::sched {
namespace {

PoolService entry(std::uint32_t service, double weights_mib, bool on_demand) {
  PoolService made{ServiceId(service), {1}, LatencyTable(1, 1)};
  made.model = {.copy = ServiceId(service), .on_demand = on_demand, .weights_mib = weights_mib, .working_mib = 500};
  return made;
}

// Services 0 to 3 with 1,000 MiB of weights each on a slice of 4,096 MiB; 0 stays loaded, the others come on demand.
// 4,096 - 1,000 - 500 = 2,596 MiB are for models on demand: two at a time.
Pool shared_pool() {
  Pool pool{"a100-40gb/1g.5gb", 1, 0.125, {entry(0, 1000, false)}};
  for (const std::uint32_t service : {1u, 2u, 3u}) pool.services.push_back(entry(service, 1000, true));
  pool.memory_mib = 4096;
  return pool;
}

using Ids = std::vector<ServiceId>;

TEST(OnDemandModels, EvictTheOneUsedLeastRecently) {
  const Pool pool = shared_pool();
  OnDemandModels models;
  EXPECT_TRUE(models.use(pool, pool.services[1]).cold);
  EXPECT_TRUE(models.use(pool, pool.services[2]).cold);
  EXPECT_FALSE(models.use(pool, pool.services[1]).cold);
  const auto third = models.use(pool, pool.services[3]);
  EXPECT_TRUE(third.cold);
  EXPECT_EQ(third.evicted, (Ids{ServiceId(2)}));
  EXPECT_EQ(Ids(models.loaded().begin(), models.loaded().end()), (Ids{ServiceId(1), ServiceId(3)}));
}

TEST(OnDemandModels, AreLoadedAgainAfterARestartOrAFailedLoad) {
  const Pool pool = shared_pool();
  OnDemandModels models;
  models.use(pool, pool.services[1]);
  models.forget(ServiceId(1));
  EXPECT_TRUE(models.use(pool, pool.services[1]).cold);
  models.clear();
  EXPECT_TRUE(models.use(pool, pool.services[1]).cold);
}

// As certificates assume it: whatever was loaded before, every batch loads its model.
TEST(OnDemandModels, ThatDoNotStayAreLoadedByEveryBatch) {
  Pool pool = shared_pool();
  pool.services[1].model.stays = false;
  OnDemandModels models;
  EXPECT_TRUE(models.use(pool, pool.services[1]).cold);
  EXPECT_TRUE(models.use(pool, pool.services[1]).cold);
  EXPECT_TRUE(models.loaded().empty());
}

TEST(OnDemandModels, AllStayWhereMemoryIsNotKnown) {
  Pool pool = shared_pool();
  pool.memory_mib = 0;
  OnDemandModels models;
  for (const std::size_t i : {1u, 2u, 3u}) EXPECT_TRUE(models.use(pool, pool.services[i]).evicted.empty());
  EXPECT_EQ(models.loaded().size(), 3u);
}

// Service 1 runs the copy of service 0, which stays loaded: nothing is to be loaded for it.
TEST(OnDemandModels, AreNeverColdWhereAnotherServiceKeepsTheCopy) {
  Pool pool = shared_pool();
  pool.services[1].model.copy = ServiceId(0);
  OnDemandModels models;
  EXPECT_FALSE(models.use(pool, pool.services[1]).cold);
  EXPECT_TRUE(models.loaded().empty());
}

// Services 0 and 1 share one copy of 1,000 MiB; of 2 and 3 on demand one at a time must fit: 1,000 + 1,000 + 500.
TEST(SliceMemory, CountsACopyOnceAndTheLargestOnDemand) {
  Pool pool = shared_pool();
  pool.services[1] = entry(1, 1000, false);
  pool.services[1].model.copy = ServiceId(0);
  const MemoryNeed need = memory_need(pool);
  EXPECT_EQ(need.loaded_mib, 1000);
  EXPECT_EQ(need.on_demand_largest_mib, 1000);
  EXPECT_EQ(need.least_mib(), 2500);
}

TEST(SliceMemory, NamesTheSliceItsModelsAndWhatTheyTake) {
  Deployment deployment;
  deployment.devices.push_back({"gpu-0", {}, {}});
  deployment.devices[0].geometry.profiles.emplace_back();
  deployment.devices[0].geometry.profiles[0].name = "1g.5gb";
  for (const char* name : {"a", "b", "c", "d"}) {
    deployment.services.emplace_back();
    deployment.services.back().name = name;
  }
  deployment.pools = {shared_pool()};
  deployment.places = {{DeviceId(0), PoolId(0), {0, 3}, 0}};
  EXPECT_EQ(why_memory_lacks(deployment), std::nullopt);
  deployment.pools[0].memory_mib = 2400;
  EXPECT_EQ(why_memory_lacks(deployment),
            "gpu-0/1g.5gb@3: the models do not fit: the weights that stay loaded take 1000 MiB, the largest model on "
            "demand 1000 MiB and the largest batch 500 MiB more, but 2400 MiB are there. Weights: a 1000 MiB, b 1000 "
            "MiB, c 1000 MiB, d 1000 MiB");
}

}  // namespace
}  // namespace tangram::sched

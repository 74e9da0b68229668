// A cluster to be timed: one service on GPUs of seven slices each, three kinds of them.
#pragma once

#include "core/geometry.h"
#include "sim/simulation.h"

namespace tangram::bench {

struct Cluster {
  sched::Deployment deployment;
  Workload workload;
};

// `load` is the share of what the slices can serve one request at a time.
inline Cluster make_cluster(int gpus, double load) {
  Cluster cluster;
  cluster.deployment.devices.push_back({"bench", *find_geometry("a100-80gb"), {}});
  const Slo slo{std::chrono::milliseconds(50), 99};
  cluster.deployment.services.push_back({"model", slo, 0, Padding::bucket, {128}, {}, 32});
  constexpr int kSizes[] = {1, 2, 3};
  constexpr int kPerGpu[] = {3, 2, 2};
  double capacity_per_s = 0;
  for (std::uint32_t i = 0; i < 3; ++i) {
    sched::PoolService entry{ServiceId(0), {32}, sched::LatencyTable(1, 32)};
    for (std::int32_t n = 1; n <= 32; ++n) {
      const Duration run = from_milliseconds(4.0 + 2.0 * n / kSizes[i]);
      entry.latency.set(0, n, {run, run});
    }
    cluster.deployment.pools.push_back({std::to_string(kSizes[i]) + "g", kSizes[i], kSizes[i] / 7.0, {entry}});
    cluster.deployment.services[0].pools.push_back(sched::PoolId(i));
    for (int n = 0; n < kPerGpu[i] * gpus; ++n)
      cluster.deployment.places.push_back({DeviceId(0), sched::PoolId(i), {}, 0});
    capacity_per_s += kPerGpu[i] * gpus * 1000.0 / (4.0 + 2.0 / kSizes[i]);
  }
  Service service;
  service.name = service.model = "model";
  service.slo = slo;
  service.traffic = PoissonTraffic{load * capacity_per_s};
  service.input_size = ConstantSize{128};
  cluster.workload.services.push_back(service);
  return cluster;
}

}  // namespace tangram::bench

// Compiles a plan, which names things, into a deployment, which indexes them.
//
// Slices of the same device type, profile and replicas form a pool: the scheduler treats them alike and keeps one
// latency table for all of them. Run times are predicted here once, so that a decision is a table lookup.
#include "sched/deployment.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace tangram::sched {
namespace {

// What makes two slices interchangeable. Compared as text: plans are small, and a text covers every field.
struct PoolKey {
  std::string type;
  std::string profile;
  std::vector<Replica> replicas;

  bool operator<(const PoolKey& other) const {
    const auto key = [](const PoolKey& k) {
      std::string text = k.type + '/' + k.profile;
      for (const auto& replica : k.replicas) {
        text += fmt::format("|{}*{}", replica.service, replica.processes);
        for (const auto& bucket : replica.buckets) text += fmt::format(",{}:{}", bucket.size_max, bucket.batch_size);
      }
      return text;
    };
    return key(*this) < key(other);
  }
};

std::map<std::string, std::size_t> index_services(const Workload& workload) {
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < workload.services.size(); ++i) index.emplace(workload.services[i].name, i);
  return index;
}

// The buckets of a service are all upper edges that any of its replicas names.
void collect_edges(const Plan& plan, const std::map<std::string, std::size_t>& index, Deployment& deployment) {
  for (const auto& device : plan.devices) {
    for (const auto& planned : device.slices) {
      for (const auto& replica : planned.replicas) {
        const auto found = index.find(replica.service);
        // An unknown service is reported by compile(), which knows the device's name.
        if (found == index.end()) continue;
        auto& edges = deployment.services[found->second].edges;
        for (const auto& bucket : replica.buckets) edges.push_back(bucket.size_max);
      }
    }
  }
  for (auto& service : deployment.services) {
    std::ranges::sort(service.edges);
    const auto rest = std::ranges::unique(service.edges);
    service.edges.erase(rest.begin(), rest.end());
  }
}

// Batch limits by bucket: each bucket of the service that a bucket of the replica covers, that is, is no larger
// than, and larger than the replica's next smaller one or not named by it at all.
std::vector<std::int32_t> batch_limits(const DeployedService& service, const Replica& replica) {
  std::vector<std::int32_t> limits(service.edges.size(), 0);
  for (std::size_t b = 0; b < service.edges.size(); ++b) {
    for (const auto& bucket : replica.buckets) {
      if (bucket.size_max < service.edges[b]) continue;
      // Relies on ascending buckets: the first that covers the size pads least.
      limits[b] = static_cast<std::int32_t>(std::min<std::int64_t>(bucket.batch_size, kBatchMax));
      break;
    }
  }
  return limits;
}

// The run times of one replica for every bucket and number of samples up to its limit.
Result<PoolService> compile_replica(const PlannedDevice& device, const MigProfile& profile, const Replica& replica,
                                    const Service& service, ServiceId id, const DeployedService& deployed,
                                    const LatencyModel& model) {
  PoolService result{id, batch_limits(deployed, replica), {}};
  // A replica that takes nothing still has a table of one column, so that lookups need no special case.
  const std::int32_t samples_max = std::max(1, std::ranges::max(result.batch_max));
  result.latency = LatencyTable(deployed.edges.size(), samples_max);
  for (std::size_t b = 0; b < deployed.edges.size(); ++b) {
    for (std::int32_t n = 1; n <= result.batch_max[b]; ++n) {
      const RunPoint point{device.type, profile.name, service.model, n, deployed.edges[b], replica.processes};
      const auto prediction = model.predict(point);
      if (!prediction && n == 1) {
        return Error{ErrorCode::invalid,
                     fmt::format("{}: {} has no prediction for {} on {} at size {}: not measured, or "
                                 "it does not fit into memory",
                                 device.name, service.name, service.model, profile.name, deployed.edges[b])};
      }
      // The plan's limit exceeds what fits or was measured; smaller batches are still usable.
      if (!prediction) {
        result.batch_max[b] = n - 1;
        break;
      }
      result.latency.set(b, n, *prediction);
    }
  }
  return result;
}

// Requires sorted pools, so that each service lists its pools smallest first.
void link_services(Deployment& deployment) {
  for (std::size_t p = 0; p < deployment.pools.size(); ++p) {
    for (const auto& entry : deployment.pools[p].services) {
      auto& service = deployment.services[entry.service.index()];
      service.pools.push_back(PoolId(static_cast<std::uint32_t>(p)));
      service.samples_max = std::max(service.samples_max, std::ranges::max(entry.batch_max));
    }
  }
}

// Pools in ascending order of their slices' size, so that "smallest first" is the order of the array.
void sort_pools(Deployment& deployment) {
  std::vector<std::uint32_t> order(deployment.pools.size());
  std::iota(order.begin(), order.end(), 0u);
  // Stable: equal pools keep the order of the plan, so the same plan always gives the same deployment.
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) {
    const auto& pa = deployment.pools[a];
    const auto& pb = deployment.pools[b];
    return std::pair(pa.compute_slices, pa.weight) < std::pair(pb.compute_slices, pb.weight);
  });
  std::vector<Pool> sorted;
  std::vector<PoolId> moved_to(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    sorted.push_back(std::move(deployment.pools[order[i]]));
    moved_to[order[i]] = PoolId(i);
  }
  deployment.pools = std::move(sorted);
  for (auto& place : deployment.places) place.pool = moved_to[place.pool.index()];
}

}  // namespace

Result<Deployment> compile(const Plan& plan, const Workload& workload, const LatencyModel& model) {
  Deployment deployment;
  for (const auto& service : workload.services) {
    deployment.services.push_back({service.name, service.slo, service.priority, service.padding, {}, {}, 1});
  }
  const auto index = index_services(workload);
  collect_edges(plan, index, deployment);
  std::map<PoolKey, PoolId> pools;
  for (const auto& device : plan.devices) {
    const DeviceId device_id(static_cast<std::uint32_t>(deployment.devices.size()));
    deployment.devices.push_back({device.name, device.geometry, layout_of(device)});
    for (const auto& planned : device.slices) {
      if (planned.replicas.empty()) continue;  // Free to lend; nothing runs there.
      const MigProfile& profile = device.geometry.profiles[planned.slice.profile];
      const auto [entry, is_new] = pools.try_emplace({device.type, profile.name, planned.replicas},
                                                     PoolId(static_cast<std::uint32_t>(deployment.pools.size())));
      int processes = 1;
      if (is_new) {
        Pool pool{device.type + '/' + profile.name,
                  profile.compute_slices,
                  static_cast<double>(profile.units) / device.geometry.units,
                  {}};
        for (const auto& replica : planned.replicas) {
          const auto found = index.find(replica.service);
          if (found == index.end()) {
            return Error{ErrorCode::invalid, fmt::format("{}: the plan serves {}, which is not in the services file",
                                                         device.name, replica.service)};
          }
          const ServiceId id(static_cast<std::uint32_t>(found->second));
          TANGRAM_TRY(auto compiled, compile_replica(device, profile, replica, workload.services[found->second], id,
                                                     deployment.services[found->second], model));
          pool.services.push_back(std::move(compiled));
        }
        deployment.pools.push_back(std::move(pool));
      }
      // Each process runs a batch of its own at the same time, so it counts as a slice.
      for (const auto& replica : planned.replicas) processes = std::max(processes, replica.processes);
      for (int process = 0; process < processes; ++process) {
        deployment.places.push_back({device_id, entry->second, planned.slice, process});
      }
    }
  }
  sort_pools(deployment);
  link_services(deployment);
  return deployment;
}

}  // namespace tangram::sched

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
        if (replica.load == ReplicaLoad::on_demand) text += '?';
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

// What one process keeps of the model, as far as measurements tell. The largest batches decide what a run takes.
ModelCopy copy_of(const PlannedDevice& device, const MigProfile& profile, const Replica& replica,
                  const Service& service, const PoolService& compiled, const std::vector<std::int64_t>& edges,
                  const LatencyModel& model) {
  ModelCopy copy;
  copy.on_demand = replica.load == ReplicaLoad::on_demand;
  copy.load = model.load_time(device.type, profile.name, service.model).value_or(Duration::zero());
  copy.weights_mib = model.weights_mib(device.type, profile.name, service.model).value_or(0);
  for (std::size_t b = 0; b < edges.size(); ++b) {
    if (compiled.batch_max[b] < 1) continue;
    const auto run =
        model.predict({device.type, profile.name, service.model, compiled.batch_max[b], edges[b], replica.processes});
    if (!run || !run->memory_mib) continue;
    copy.working_mib = std::max(copy.working_mib, *run->memory_mib / replica.processes - copy.weights_mib);
  }
  return copy;
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
  result.model = copy_of(device, profile, replica, service, result, deployed.edges, model);
  return result;
}

// The replicas of a service on all slices and what else decides whether requests may share its batches, as text. Equal
// for two services exactly if they are fused. Limits and not run times are compared: the same network on the same kind
// of slice takes as long for both.
std::string batching_key(const Deployment& deployment, const Service& service, ServiceId id) {
  std::string key = fmt::format("{}|{}|{}|{}", service.model, service.weights, static_cast<int>(service.padding),
                                service.slo.late_limit);
  for (std::size_t p = 0; p < deployment.pools.size(); ++p) {
    for (const auto& entry : deployment.pools[p].services) {
      if (entry.service != id) continue;
      key += fmt::format("|{}{}", p, entry.model.on_demand ? "?" : "");
      for (const auto limit : entry.batch_max) key += fmt::format(",{}", limit);
    }
  }
  for (const auto edge : deployment.services[id.index()].edges) key += fmt::format("/{}", edge);
  return key;
}

// Services that run the same copy of a network on the same slices share queues and batches: the first of them in the
// workload takes the requests of the others, and only it stays in the pools. A job is left alone: its rows have no
// deadlines of their own. Requires pools whose entries are complete.
void fuse_services(const Workload& workload, Deployment& deployment) {
  std::map<std::string, ServiceId> first;
  for (std::uint32_t s = 0; s < workload.services.size(); ++s) {
    const Service& service = workload.services[s];
    if (service.job || deployment.services[s].edges.empty()) continue;
    const auto [found, is_new] = first.emplace(batching_key(deployment, service, ServiceId(s)), ServiceId(s));
    if (is_new || workload.services[found->second.index()].signature() != service.signature()) continue;
    deployment.services[s].joins = found->second;
  }
  for (auto& pool : deployment.pools) {
    std::erase_if(pool.services, [&](const PoolService& entry) {
      return deployment.services[entry.service.index()].joins.has_value();
    });
  }
}

// Names the copy of each service, by the first service of the workload with the same model and weights.
void name_copies(const Workload& workload, Deployment& deployment) {
  std::map<std::pair<std::string, std::string>, ServiceId> first;
  for (std::uint32_t s = 0; s < workload.services.size(); ++s) {
    first.try_emplace({workload.services[s].model, workload.services[s].weights}, ServiceId(s));
  }
  for (auto& pool : deployment.pools) {
    for (auto& entry : pool.services) {
      const Service& service = workload.services[entry.service.index()];
      entry.model.copy = first.at({service.model, service.weights});
    }
  }
}

// A service that joins another has the buckets and pools of that one, so that they can be read without asking who.
void copy_to_joined(Deployment& deployment) {
  for (auto& service : deployment.services) {
    if (!service.joins) continue;
    const DeployedService& lead = deployment.services[service.joins->index()];
    service.edges = lead.edges;
    service.pools = lead.pools;
    service.samples_max = lead.samples_max;
  }
}

// The limits of rates that replicas on shared slices state.
void limit_rates(const Plan& plan, const std::map<std::string, std::size_t>& index, Deployment& deployment) {
  for (const auto& device : plan.devices) {
    for (const auto& planned : device.slices) {
      for (const auto& replica : planned.replicas) {
        const auto found = index.find(replica.service);
        if (found == index.end() || planned.replicas.size() < 2) continue;
        double& limit = deployment.services[found->second].rate_max_per_s;
        limit = std::max(limit, replica.rate_max_per_s.value_or(0));
      }
    }
  }
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

void link(const Workload& workload, Deployment& deployment) {
  name_copies(workload, deployment);
  fuse_services(workload, deployment);
  link_services(deployment);
  copy_to_joined(deployment);
}

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
      for (const auto& replica : planned.replicas) processes = std::max(processes, replica.processes);
      if (is_new) {
        Pool pool{device.type + '/' + profile.name,
                  profile.compute_slices,
                  static_cast<double>(profile.units) / device.geometry.units,
                  {}};
        if (profile.memory_gib.evidence != Evidence::unknown) {
          pool.memory_mib = 1024 * profile.memory_gib.value / processes;
        }
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
      for (int process = 0; process < processes; ++process) {
        deployment.places.push_back({device_id, entry->second, planned.slice, process});
      }
    }
  }
  sort_pools(deployment);
  link(workload, deployment);
  limit_rates(plan, index, deployment);
  return deployment;
}

}  // namespace tangram::sched

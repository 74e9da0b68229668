#include "plan/replica_capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "plan/demand.h"
#include "plan/detail/tolerance.h"

namespace tangram::plan {
namespace {

// What a service's requests look like, worked out once.
struct ServiceMix {
  const Service* service = nullptr;
  std::vector<std::int64_t> edges;  // Ascending upper edges of its buckets, of all plans together.
  std::vector<double> shares;       // Of its samples, by bucket.
  double samples = 1;               // In a request.

  // The share of samples above `from` and up to `to`, which are edges or zero.
  double share_between(std::int64_t from, std::int64_t to) const {
    double sum = 0;
    for (std::size_t i = 0; i < edges.size(); ++i) sum += edges[i] > from && edges[i] <= to ? shares[i] : 0;
    return sum;
  }
  // The next edge below, or zero.
  std::int64_t edge_below(std::int64_t edge) const {
    const auto found = std::ranges::lower_bound(edges, edge);
    return found == edges.begin() ? 0 : *(found - 1);
  }
};

using Mixes = std::map<std::string, ServiceMix>;

Mixes mixes_of(const Workload& workload, const std::vector<const Plan*>& plans) {
  Mixes mixes;
  for (const auto& service : workload.services) mixes[service.name].service = &service;
  for (const Plan* plan : plans) {
    for (const auto& device : plan->devices) {
      for (const auto& slice : device.slices) {
        for (const auto& replica : slice.replicas) {
          const auto found = mixes.find(replica.service);
          if (found == mixes.end()) continue;
          for (const auto& bucket : replica.buckets) found->second.edges.push_back(bucket.size_max);
        }
      }
    }
  }
  for (auto& [name, mix] : mixes) {
    std::ranges::sort(mix.edges);
    mix.edges.erase(std::ranges::unique(mix.edges).begin(), mix.edges.end());
    if (!mix.edges.empty()) mix.shares = bucket_shares(size_shares(*mix.service), mix.edges);
    mix.samples = samples_mean(*mix.service);
  }
  return mixes;
}

// Seconds of the slice for one sample of the bucket, or nothing if the run is not known.
std::optional<double> seconds_per_sample(const LatencyModel& model, const PlannedDevice& device, const Slice& slice,
                                         const Replica& replica, const PlannedBucket& bucket, const Service& service) {
  const auto prediction = model.predict({.device = device.type,
                                         .mig_profile = device.geometry.profiles[slice.profile].name,
                                         .model = service.model,
                                         .batch = bucket.batch_size,
                                         .size = bucket.size_max,
                                         .processes = replica.processes});
  if (!prediction || prediction->mean <= Duration::zero()) return std::nullopt;
  return to_seconds(prediction->mean) / static_cast<double>(bucket.batch_size * replica.processes);
}

double capacity_of(const Mixes& mixes, const LatencyModel& model, const PlannedDevice& device,
                   const PlannedSlice& slice, const Replica& replica) {
  const auto found = mixes.find(replica.service);
  if (found == mixes.end()) return 0;
  const ServiceMix& mix = found->second;
  double share = 0;
  double seconds = 0;
  std::int64_t from = mix.edge_below(replica.buckets.front().size_max);
  for (const auto& bucket : replica.buckets) {
    const auto each = seconds_per_sample(model, device, slice.slice, replica, bucket, *mix.service);
    if (!each) return 0;
    // A bucket in which no input falls still serves: it counts as if a few did.
    const double weight = std::max(mix.share_between(from, bucket.size_max), detail::kRateMin);
    share += weight;
    seconds += weight * *each;
    from = bucket.size_max;
  }
  const auto neighbours = static_cast<double>(std::max<std::size_t>(slice.replicas.size(), 1));
  return share / seconds / mix.samples / neighbours;
}

}  // namespace

Capacity capacity_by(const Workload& workload, const LatencyModel& model, const std::vector<const Plan*>& plans) {
  const auto mixes = std::make_shared<const Mixes>(mixes_of(workload, plans));
  return [mixes, &model](const PlannedDevice& device, const PlannedSlice& slice, const Replica& replica) {
    return capacity_of(*mixes, model, device, slice, replica);
  };
}

std::set<std::string> without_run_times(const Plan& plan, const Workload& workload, const LatencyModel& model) {
  std::set<std::string> unknown;
  for (const auto& device : plan.devices) {
    for (const auto& slice : device.slices) {
      for (const auto& replica : slice.replicas) {
        const auto service = std::ranges::find(workload.services, replica.service, &Service::name);
        if (service == workload.services.end()) {
          unknown.insert(fmt::format("{}, which is not among the services", replica.service));
          continue;
        }
        for (const auto& bucket : replica.buckets) {
          if (seconds_per_sample(model, device, slice.slice, replica, bucket, *service)) continue;
          unknown.insert(fmt::format("{} on {} of {}, batch {}, size {}", service->model,
                                     device.geometry.profiles[slice.slice.profile].name, device.type, bucket.batch_size,
                                     bucket.size_max));
        }
      }
    }
  }
  return unknown;
}

}  // namespace tangram::plan

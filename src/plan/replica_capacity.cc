// The capacity of a replica in requests a second, from predicted run times.
//
// A replica serves several buckets, each with its own time per sample. Requests arrive in the mix of the service, so
// the mean time per sample is the average over the replica's buckets, weighted by their share of the inputs. Capacity
// is its inverse, divided by the samples of a request and by the number of replicas on the slice.
//
// Example: half of the samples take 1 ms and half 3 ms: 500 samples a second.

#include "plan/replica_capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "plan/demand.h"
#include "plan/detail/tolerance.h"

namespace tangram::plan {
namespace {

// The sizes of a service's requests, computed once for all replicas.
struct ServiceMix {
  const Service* service = nullptr;
  std::vector<std::int64_t> edges;  // Ascending upper edges of its buckets, of all plans together.
  std::vector<double> shares;       // Of its samples, by bucket.
  double samples = 1;               // In a request.

  // The share of samples above `from` and up to `to`. Both are edges or zero.
  double share_between(std::int64_t from, std::int64_t to) const {
    double sum = 0;
    for (std::size_t i = 0; i < edges.size(); ++i) sum += edges[i] > from && edges[i] <= to ? shares[i] : 0;
    return sum;
  }
  // The next lower edge, or zero.
  std::int64_t edge_below(std::int64_t edge) const {
    const auto found = std::ranges::lower_bound(edges, edge);
    return found == edges.begin() ? 0 : *(found - 1);
  }
};

using Mixes = std::map<std::string, ServiceMix>;

// Buckets of both plans of a transition count as edges, so that the shares of any replica are sums of whole entries.
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

// Seconds of slice time for one sample of the bucket; nullopt if the run time is not known.
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
  // Replicas may begin above the smallest bucket; smaller inputs belong to other replicas then.
  std::int64_t from = mix.edge_below(replica.buckets.front().size_max);
  for (const auto& bucket : replica.buckets) {
    const auto each = seconds_per_sample(model, device, slice.slice, replica, bucket, *mix.service);
    if (!each) return 0;
    // A bucket without inputs still gets a tiny weight, so that a replica with only such buckets has a capacity and
    // nothing is divided by zero.
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
  // Shared, because std::function copies the lambda and the mixes are large.
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

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
  std::vector<std::pair<std::int64_t, double>> sizes;  // Each size with its share of the inputs, ascending.
  double samples = 1;                                  // In a request.

  // The share of samples above `from` and up to `to`.
  double share_between(std::int64_t from, std::int64_t to) const {
    double sum = 0;
    for (const auto& [size, share] : sizes) sum += size > from && size <= to ? share : 0;
    return sum;
  }
};

using Mixes = std::map<std::string, ServiceMix>;

Mixes mixes_of(const Workload& workload) {
  Mixes mixes;
  for (const auto& service : workload.services) {
    ServiceMix& mix = mixes[service.name];
    mix.service = &service;
    for (const auto& [size, share] : size_shares(service)) mix.sizes.emplace_back(size, share);
    mix.samples = samples_mean(service);
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
  std::int64_t from = 0;
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

Capacity capacity_by(const Workload& workload, const LatencyModel& model) {
  // Shared, because std::function copies the lambda and the mixes are large.
  const auto mixes = std::make_shared<const Mixes>(mixes_of(workload));
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

// A plan made ready to serve: which slices can run which service, and how fast, in dense arrays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/ids.h"
#include "core/latency_model.h"
#include "core/plan.h"
#include "core/workload.h"

namespace tangram::sched {

using PoolId = StrongId<struct PoolTag>;

// Predicted run times of one model on one kind of slice: mean and p99 in nanoseconds for each bucket and number
// of samples. One look-up is an index computation and a load.
class LatencyTable {
 public:
  LatencyTable() = default;
  LatencyTable(std::size_t buckets, std::int32_t samples_max)
      : samples_max_(samples_max),
        mean_(buckets * static_cast<std::size_t>(samples_max), 0),
        p99_(buckets * static_cast<std::size_t>(samples_max), 0) {}

  std::int32_t samples_max() const { return samples_max_; }
  std::int64_t mean_ns(std::size_t bucket, std::int32_t samples) const { return mean_[at(bucket, samples)]; }
  std::int64_t p99_ns(std::size_t bucket, std::int32_t samples) const { return p99_[at(bucket, samples)]; }
  void set(std::size_t bucket, std::int32_t samples, const Prediction& prediction) {
    mean_[at(bucket, samples)] = prediction.mean.count();
    p99_[at(bucket, samples)] = prediction.p99.count();
  }

 private:
  std::size_t at(std::size_t bucket, std::int32_t samples) const {
    return bucket * static_cast<std::size_t>(samples_max_) + static_cast<std::size_t>(samples - 1);
  }

  std::int32_t samples_max_ = 0;
  std::vector<std::int64_t> mean_;
  std::vector<std::int64_t> p99_;
};

// The copy of a network that a service runs on a slice: what it takes of the memory of one process, and when it is
// loaded.
struct ModelCopy {
  ServiceId copy;          // The first service of the workload that runs the same copy: the name of the copy.
  bool on_demand = false;  // Loaded by its first batch, and again after others needed its memory.
  Duration load{};         // How long it takes to load; zero: not known.
  double weights_mib = 0;  // Zero: not known.
  double working_mib = 0;  // Of the largest batch, beyond the weights.
  // False: a model on demand is loaded anew by every batch. No plan says so: a certificate assumes it, because it holds
  // then however seldom the model is used and whatever else needs its memory.
  bool stays = true;

  bool operator==(const ModelCopy&) const = default;
};

// A service as the slices of one pool run it.
struct PoolService {
  ServiceId service;
  std::vector<std::int32_t> batch_max;  // By bucket of the service; 0: these slices do not take the bucket.
  LatencyTable latency;
  ModelCopy model = {};

  bool takes(std::size_t bucket, std::int32_t samples) const { return samples <= batch_max[bucket]; }
};

// Slices that are alike: the same kind of device and profile with the same replicas. Policies choose among pools; which
// slice of a pool runs a batch depends only on which is free.
struct Pool {
  std::string kind;  // "a100-80gb/3g.40gb"
  int compute_slices = 0;
  double weight = 0;  // Share of the device: units covered over units of the device.
  std::vector<PoolService> services;
  double memory_mib = 0;  // Of one process; zero: not known.
};

// One place where a batch can run. A slice that several processes share is several places with one name.
struct Place {
  DeviceId device;
  PoolId pool;
  Slice slice;
  int process = 0;
};

// The index of the first edge that is not below `size`, or the number of edges. `edges` ascend.
inline std::uint32_t bucket_of(std::span<const std::int64_t> edges, std::int64_t size) {
  return static_cast<std::uint32_t>(std::ranges::lower_bound(edges, size) - edges.begin());
}

struct DeployedService {
  std::string name;
  Slo slo;
  int priority = 0;
  Padding padding = Padding::bucket;
  std::vector<std::int64_t> edges;  // Ascending upper edges of its buckets.
  std::vector<PoolId> pools;        // That take any of its buckets, smallest slices first.
  std::int32_t samples_max = 1;     // The largest request that some pool takes.
  // Its requests wait and run with those of this service, which runs the same copy of the same network on the same
  // slices; edges, pools and samples_max are those of that service. Nothing: they wait and run by themselves.
  std::optional<ServiceId> joins = std::nullopt;
  // On slices that services share: requests a second beyond which it is rejected; 0: no limit.
  double rate_max_per_s = 0;

  // The bucket of an input of this size: the first whose edge is not below it. edges.size() if the size is above all
  // edges: with edges 16 and 64, size 16 is in bucket 0, size 17 in bucket 1, and size 65 in none, which is 2.
  std::uint32_t bucket_of(std::int64_t size) const { return sched::bucket_of(edges, size); }
  // False for a request that is too large for the whole plan, by its size or by its samples.
  bool takes(std::uint32_t bucket, std::int32_t samples) const {
    return bucket < edges.size() && samples <= samples_max;
  }
};

struct DeployedDevice {
  std::string name;
  Geometry geometry;
  Layout layout;
};

struct Deployment {
  std::vector<DeployedDevice> devices;
  std::vector<DeployedService> services;  // In the order of the workload.
  std::vector<Pool> pools;                // Smallest slices first.
  std::vector<Place> places;              // By SliceId.
};

// The service in whose queues and batches the requests of `service` are.
inline ServiceId queue_of(const Deployment& deployment, ServiceId service) {
  return deployment.services[service.index()].joins.value_or(service);
}

// The largest batch that a latency table is compiled for.
inline constexpr std::int32_t kBatchMax = 4096;

// Completes a deployment whose devices, places, pools and services (but for their pools) are set: services with the
// same model and weights whose replicas are the same on every slice share queues and batches, and each service gets its
// pools. Requires pools in ascending order of size.
void link(const Workload& workload, Deployment& deployment);

// Compiles a plan. Services with the same model and weights whose replicas are the same on every slice share queues and
// batches. Errors: a replica of an unknown service, or a planned batch of one that the model cannot predict.
// Larger batches that do not fit into memory shorten the batch limit instead.
Result<Deployment> compile(const Plan& plan, const Workload& workload, const LatencyModel& model);

}  // namespace tangram::sched

// The results of a run, in memory that does not grow with its length.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/quantile_sketch.h"
#include "base/time.h"
#include "core/request.h"
#include "sched/deployment.h"
#include "sched/world.h"

namespace tangram::sim {

// The requests of one service and bucket, or of one tenant.
struct Tally {
  std::uint64_t arrived = 0;
  std::uint64_t served = 0;  // In time.
  std::uint64_t late = 0;
  std::uint64_t failed = 0;
  std::array<std::uint64_t, kRejectReasons.size()> rejected{};  // By RejectReason.
  QuantileSketch latency;                   // Of answered requests, nanoseconds; relative error 0.4 %.

  double wait_sum_ns = 0;  // Time that answered requests waited before their batch started.
  double size_real = 0;    // Sum of the input sizes of answered requests, ...
  double size_padded = 0;  // ... and of what they were padded to.

  std::uint64_t rejected_total() const;
  std::uint64_t resolved() const { return served + late + failed + rejected_total(); }
  // Mean time between arrival and start, of answered requests.
  Duration wait_mean() const;
  // The share of all requests that were answered in time. One if there were none, so that no Slo counts as broken; a
  // report looks at `arrived` first.
  double slo_attainment() const;
  // The share of the input that was padding; zero if nothing was answered.
  double padding_share() const { return size_padded > 0 ? 1 - size_real / size_padded : 0; }
  // The latency below which a share `q` of all requests lies. Requests without an answer count as infinite;
  // Duration::max() if `q` falls among them.
  Duration latency_quantile(double q) const;
  void add(const Tally& other);
};

struct SliceTally {
  std::int64_t busy_ns = 0;  // Until the last request was resolved.
  double useful_ns = 0;      // Busy time less padding and less what a better filled batch would have saved.
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;
  std::uint64_t served = 0;     // Requests that it answered in time, ...
  std::uint64_t late = 0;       // ... and late.
  double size_real = 0;         // Sum of the input sizes that ran, ...
  double size_padded = 0;       // ... and of what they were padded to.
  std::uint64_t queue_sum = 0;  // Requests that still waited for this slice alone, at the start of each batch.
  std::uint64_t queue_max = 0;
};

// The place of a slice. Slices of a later plan come after those of the first.
struct SlicePlace {
  std::string device;
  std::string name;  // "3g.40gb@4", with "#1" for the second process on it.
  DeviceId device_id;
  Slice slice;
  int process = 0;
  double compute_slices = 0;  // Its share of them, where processes divide the slice.
  std::vector<ServiceId> services;
};

// How many requests are queued, as arrivals find them. Short queues, which are the usual ones, cost one increment.
class QueueDepth {
 public:
  std::uint64_t waiting = 0;  // Now.

  // One more request is queued. The length that it found is remembered if it is `counted`.
  void join(bool counted) {
    if (counted && waiting < kShort) {
      ++short_[waiting];
    } else if (counted) {
      long_.add(waiting);
    }
    ++waiting;
  }
  void leave() { waiting -= waiting > 0 ? 1 : 0; }
  QuantileSketch found() const;

 private:
  static constexpr std::size_t kShort = 128;

  std::array<std::uint64_t, kShort> short_{};
  QuantileSketch long_;
};

// One step of the time line of a service.
struct TimelineStep {
  std::uint32_t arrived = 0;
  std::uint32_t served = 0;
  std::uint32_t late = 0;
  std::uint32_t lost = 0;       // Rejected and failed.
  std::uint32_t queue_max = 0;  // Most requests of the service that waited when another came.
};

// Which part of the traffic each step of time stands for, where a run holds pieces of it: a certificate simulates the
// busiest minutes of a day without the hours between them.
struct TrafficParts {
  static constexpr std::uint8_t kUncounted = 255;  // Warm-up.

  Duration step{};                    // Zero: the run has no parts.
  std::vector<std::uint8_t> by_step;  // The part of the requests that arrive in a step; later steps count as the last.
  std::size_t count = 0;              // Of the parts.
  // Services are counted apart: part p of service s is s * count + p of Metrics::parts.
  bool by_service = false;

  std::uint8_t at(TimePoint arrival) const {
    const auto index = static_cast<std::size_t>(arrival.time_since_epoch() / step);
    return by_step[index < by_step.size() ? index : by_step.size() - 1];
  }
};

// A batch as it ran, for pictures and traces.
struct BatchSpan {
  TimePoint start;
  TimePoint end;
  SliceId slice;
  ServiceId service;
  std::uint32_t bucket = 0;
  std::int32_t samples = 0;
  std::uint32_t requests = 0;
};

// A sketch takes some kilobytes, so a large fleet has no sketch for each slice.
inline constexpr std::size_t kSlicesWithLatency = 256;
inline constexpr std::size_t kBatchSizesCounted = 256;  // Larger batches are counted together.

struct Metrics {
  std::vector<std::vector<Tally>> services;  // By service, then bucket; one further for requests that fit no bucket.
  std::vector<Tally> tenants;
  std::vector<Tally> parts;  // By part of the traffic, as TrafficParts says; empty if the run has none.
  std::vector<SliceTally> slices;
  std::vector<SlicePlace> places;             // By slice, like `slices`.
  std::vector<QuantileSketch> slice_latency;  // Of what each slice answered; empty beyond kSlicesWithLatency slices.
  std::vector<std::vector<CountHistogram>> batch_sizes;  // Samples per batch, by service and bucket.
  QuantileSketch queue_depth;                            // Waiting requests of all services.
  std::vector<QueueDepth> queue_by_service;              // Those of one service, as its own arrivals find them, ...
  std::vector<std::vector<QueueDepth>> queue_by_bucket;  // ... of one of its buckets, ...
  std::vector<QueueDepth> queue_by_tenant;               // ... and of one tenant. Empty if there is only one.
  Duration timeline_step{};
  std::vector<std::vector<TimelineStep>> timeline;  // By service.
  std::vector<BatchSpan> batches;                   // The first ones, up to a limit.
  std::uint64_t batches_beyond = 0;                 // Those that are not in `batches`.

  Tally service_total(std::size_t service) const;
  CountHistogram service_batch_sizes(std::size_t service) const;
  Tally total() const;
};

}  // namespace tangram::sim

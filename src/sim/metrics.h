// What a run is judged by, in memory that does not grow with it.
#pragma once

#include <array>
#include <cstdint>
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
  std::array<std::uint64_t, 5> rejected{};  // By RejectReason.
  QuantileSketch latency;                   // Of answered requests, nanoseconds; relative error 0.4 %.

  double wait_sum_ns = 0;  // Time that answered requests waited before their batch started.

  std::uint64_t rejected_total() const;
  std::uint64_t resolved() const { return served + late + failed + rejected_total(); }
  // Mean time between arrival and start, of answered requests.
  Duration wait_mean() const;
  // The share of all requests that were answered in time. One if there were none.
  double slo_attainment() const;
  // The latency below which a share `q` of all requests lies, those without an answer counting as infinite: kTimeNever
  // then.
  Duration latency_quantile(double q) const;
  void add(const Tally& other);
};

struct SliceTally {
  std::int64_t busy_ns = 0;
  double useful_ns = 0;  // Busy time less padding and less what a better filled batch would have saved.
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;
};

// One step of the time line of a service.
struct TimelineStep {
  std::uint32_t arrived = 0;
  std::uint32_t served = 0;
  std::uint32_t late = 0;
  std::uint32_t lost = 0;       // Rejected and failed.
  std::uint32_t queue_max = 0;  // Waiting requests of all services; the same in each service's step.
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

struct Metrics {
  std::vector<std::vector<Tally>> services;  // By service, then bucket; one further for requests that fit no bucket.
  std::vector<Tally> tenants;
  std::vector<SliceTally> slices;
  std::vector<CountHistogram> batch_sizes;  // Samples per batch, by service.
  std::vector<double> size_real;            // Sum of input sizes that ran, by service.
  std::vector<double> size_padded;          // The same after padding.
  QuantileSketch queue_depth;               // Waiting requests, as arrivals find them.
  Duration timeline_step{};
  std::vector<std::vector<TimelineStep>> timeline;  // By service.
  std::vector<BatchSpan> batches;                   // The first ones, up to a limit.
  std::uint64_t batches_beyond = 0;                 // Those that are not in `batches`.

  Tally service_total(std::size_t service) const;
  Tally total() const;
};

}  // namespace tangram::sim

// What services ask of slices, and what slices offer them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/problem.h"

namespace tangram::plan {

struct SizeShare {
  std::int64_t size = 1;
  double share = 0;  // Of all samples.
};

// The input sizes of a service, ascending; shares sum to one. At most kSizesMax of them: close ones are put together
// under the larger. Sizes that drift count as before and as after, half each: which sizes there are, not a load.
inline constexpr std::size_t kSizesMax = 1024;
std::vector<SizeShare> size_shares(const Service& service);
// Samples in a request, on average and at most.
double samples_mean(const Service& service);
std::int64_t samples_most(const Service& service);
// The share of requests that hold one sample, two, and so on up to the most.
std::vector<double> samples_by_number(const Service& service);
// The rate to plan for: the highest that a curve or a day reaches, what a job needs to end in time, the mean otherwise.
// Of bursts and traces: the least that slices must run so that the promise can hold at all, which is above the mean
// where bursts bring more requests than the percentile may lose. Of a closed loop: what comes at least while its
// answers are in time, each after the whole Slo.
double planning_rate_per_s(const Service& service);
// The rate at which requests gather into batches when most of them come: in a burst, or in the busiest Slo of a trace.
double gather_rate_per_s(const Service& service);
// The highest rate that the service has for longer than its requests wait: in a burst, at the peak of a day or a curve,
// in the busiest ten seconds of a trace. What its neighbours on a slice have to allow for.
double busiest_rate_per_s(const Service& service);
// The rate above which its requests are refused on shared slices. Of a trace, at least that at which random arrivals are
// as close together as its requests are at times. The busiest rate otherwise. Costs some passes over a trace.
double neighbour_rate_per_s(const Service& service);
// The rate at which its neighbours are judged, with requests of any size at any time: the same, and of a trace at least
// that at which they bring as much work as its requests do where large ones come together.
double neighbour_load_per_s(const Service& service);
// True for a trace whose requests come so much faster at times than on average that slices of its own are better: its
// neighbours would be judged at more than five times its mean.
bool comes_at_once(const Service& service);
// Jobs are planned to end after this share of the time that they have: they begin late, and runs differ.
inline constexpr double kJobShare = 0.95;

// A kind of slice that a fleet can give.
struct SliceKind {
  std::size_t group = 0;    // Of the fleet.
  std::size_t profile = 0;  // Of the group's geometry.
};

// The devices of a fleet with the profiles that a plan may use.
struct Stock {
  std::vector<Geometry> geometries;  // By group of the fleet; all profiles.
  std::vector<SliceKind> kinds;
  std::vector<std::int64_t> samples_most;  // In a request of each service: no batch is smaller.

  const MigProfile& profile(std::size_t kind) const {
    return geometries[kinds[kind].group].profiles[kinds[kind].profile];
  }
  const std::string& type(std::size_t kind) const { return geometries[kinds[kind].group].type; }
  std::size_t units(std::size_t kind) const { return static_cast<std::size_t>(profile(kind).units); }
};
// Only profiles on which some service's model runs are kept, and of those that differ in media engines alone, the
// plain one.
Stock take_stock(const Problem& problem);

// One way of using a slice for a service, in the terms of the plan.
struct Offer {
  std::size_t kind = 0;
  int processes = 1;
  std::vector<std::int64_t> batch;  // By bucket; 0: not this bucket.
  std::vector<double> rate_per_s;   // Samples a second if the slice ran nothing else.
};

// A service with its buckets and everything that could serve it.
struct Demand {
  std::size_t service = 0;  // Of the workload.
  std::vector<std::int64_t> edges;
  std::vector<double> rate_per_s;  // Samples a second, by bucket.
  std::vector<Offer> offers;
  // Where sizes drift: the rates at the other end of the drift. `rate_per_s` is the end that takes more slices.
  std::vector<double> other_rate_per_s;
};

// What a run takes on a slice; nothing where it is not known, or does not leave the memory free that the options ask
// for.
std::optional<Prediction> predict_with_headroom(const Problem& problem, const MigProfile& profile,
                                                const RunPoint& point);

// The best batch for a bucket under the rule: most samples a second among those in time. `rate_per_s` of the bucket
// limits the batch to what can gather before the first member runs out of time; infinite: no limit.
struct BatchChoice {
  std::int64_t batch = 0;
  double rate_per_s = 0;  // Of all processes of the slice.
};
BatchChoice best_batch(const Problem& problem, const Stock& stock, std::size_t service, std::size_t kind, int processes,
                       std::int64_t size, double rate_per_s, double slo_share = 1);

// The service without drift: with the sizes from before, and with those from after.
Service before_drift(Service service);
Service after_drift(Service service);

// Shares of the input sizes by bucket.
std::vector<double> bucket_shares(const std::vector<SizeShare>& sizes, const std::vector<std::int64_t>& edges);

Demand make_demand(const Problem& problem, const Stock& stock, std::size_t service, std::vector<std::int64_t> edges);

// Why no slice of the fleet runs the largest request of a service at an input size: not measured, or not so large, or
// more than its memory.
std::string why_not_run(const Problem& problem, std::size_t service, std::int64_t size);

// Why nothing serves the service, and what would: in words.
std::string why_unservable(const Problem& problem, const Stock& stock, const Demand& demand);

// Names a service's use of slices for a certifier and a plan.
ReplicaGroup replica_group(const Problem& problem, const Stock& stock, const Demand& demand, const Offer& offer,
                           int count);

}  // namespace tangram::plan

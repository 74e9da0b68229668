// A promise is certified by simulation, not by a queueing formula: batching, buckets and the dispatch policy have no
// closed form that is exact near saturation, where plans want to be.
//
// A verdict rests on independent replicates of the traffic (traffic_design.h) and says: the share in time is at least
// the percentile, with an error of 5 % at most after all that the search tried. The test is sequential. It looks at 4,
// 8, 16, ... replicates and stops when the interval lies on one side of the promise; a question that stays open until
// the requests run out is too close to call and counts as broken.
//
// There are two kinds of questions. A "look" decides which covers the search considers. A "confirm" uses other random
// numbers, so the luck that let a cover win the search does not help it; and since a search confirms up to ten covers
// of a service, each confirmation has a tenth of the error.

#include "lab/certify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/math.h"
#include "core/geometry.h"
#include "core/service_key.h"
#include "lab/detail/promise_check.h"
#include "lab/detail/window_check.h"
#include "lab/share_estimate.h"
#include "lab/traffic_design.h"
#include "plan/demand.h"
#include "sim/simulation.h"

namespace tangram::lab {
namespace {

// The normal deviate of the 99th percentile.
constexpr double kDeviate99 = 2.3263;

// The bucket edges of all groups together, ascending. Groups may lack buckets that do not fit on their slices.
std::vector<std::int64_t> edges_of(std::span<const plan::ReplicaGroup> groups) {
  std::set<std::int64_t> edges;
  for (const auto& group : groups) {
    for (const auto& bucket : group.replica.buckets) edges.insert(bucket.size_max);
  }
  return {edges.begin(), edges.end()};
}

// Traces up to this many requests are also run as a whole: a second of simulation at most.
constexpr std::size_t kTraceWholeMax = 2'000'000;
// Spreads below this are rounding: a mean and a p99 that were written with few digits.
constexpr double kSpreadMin = 1e-6;

}  // namespace

SlicePower power_of(const sched::Deployment& deployment, ServiceId service, const std::vector<plan::SizeShare>& sizes,
                    double samples_mean) {
  SlicePower power;
  const ServiceId queue = sched::queue_of(deployment, service);
  power.edges = deployment.services[queue.index()].edges;
  std::vector<double> samples_per_s(power.edges.size(), 0);
  for (const auto& place : deployment.places) {
    const auto& entries = deployment.pools[place.pool.index()].services;
    const auto found = std::ranges::find(entries, queue, &sched::PoolService::service);
    if (found == entries.end()) continue;
    const auto& entry = *found;
    for (std::size_t b = 0; b < samples_per_s.size(); ++b) {
      const std::int32_t batch = entry.batch_max[b];
      if (batch > 0) samples_per_s[b] += 1e9 * batch / static_cast<double>(entry.latency.mean_ns(b, batch));
    }
  }
  for (const double rate : samples_per_s) power.sample_s.push_back(rate > 0 ? 1 / rate : 1);
  for (const auto& [size, share] : sizes) power.request_s += share * samples_mean * power.cost_s(size, 1);
  return power;
}

CertifyOptions CertifyOptions::checking() const {
  CertifyOptions options = *this;
  options.confirm_stream = "check";
  options.confirmations = 1;
  return options;
}

double noise_spread(const sched::Deployment& deployment) {
  // Run times are simulated as log-normal, for which log(p99 / mean) is about deviate * spread.
  double ratio = 1;
  for (const auto& pool : deployment.pools) {
    for (const auto& entry : pool.services) {
      for (std::size_t b = 0; b < entry.batch_max.size(); ++b) {
        if (entry.batch_max[b] == 0) continue;
        const auto mean = static_cast<double>(entry.latency.mean_ns(b, entry.batch_max[b]));
        ratio = std::max(ratio, static_cast<double>(entry.latency.p99_ns(b, entry.batch_max[b])) / mean);
      }
    }
  }
  return math::log(ratio) / kDeviate99;
}

const sched::PoolService& SimulatedCertifier::pool_service(const Service& service,
                                                           const std::vector<std::int64_t>& edges,
                                                           const plan::ReplicaGroup& group) {
  std::string key =
      fmt::format("{}|{}|{}|{}", service.model, group.device_type, group.mig_profile, group.replica.processes);
  for (const auto edge : edges) key += fmt::format(",{}", edge);
  for (const auto& bucket : group.replica.buckets) key += fmt::format("|{}:{}", bucket.size_max, bucket.batch_size);
  const auto found = compiled_.find(key);
  if (found != compiled_.end()) return found->second;
  sched::PoolService entry{ServiceId(0), std::vector<std::int32_t>(edges.size(), 0), {}};
  std::int32_t samples_max = 1;
  for (std::size_t b = 0; b < edges.size(); ++b) {
    for (const auto& bucket : group.replica.buckets) {
      // A bucket that this replica lacks keeps batch_max 0: it does not take such requests.
      if (bucket.size_max != edges[b]) continue;
      entry.batch_max[b] = static_cast<std::int32_t>(bucket.batch_size);
      samples_max = std::max(samples_max, entry.batch_max[b]);
    }
  }
  entry.latency = sched::LatencyTable(edges.size(), samples_max);
  for (std::size_t b = 0; b < edges.size(); ++b) {
    for (std::int32_t n = 1; n <= entry.batch_max[b]; ++n) {
      const auto run =
          model_.predict({group.device_type, group.mig_profile, service.model, n, edges[b], group.replica.processes});
      // The model knows no time for so large a batch: out of memory, or never measured. The bucket ends before it.
      if (!run) {
        entry.batch_max[b] = n - 1;
        break;
      }
      entry.latency.set(b, n, *run);
    }
  }
  return compiled_.emplace(std::move(key), std::move(entry)).first->second;
}

sched::Deployment SimulatedCertifier::deploy(const Service& service, std::span<const plan::ReplicaGroup> groups) {
  sched::Deployment deployment;
  const auto edges = edges_of(groups);
  // One device holds all slices. Nothing is re-cut in these runs, so it does not matter where a slice is.
  deployment.devices.push_back({"certified", Geometry{}, {}});
  deployment.services.push_back({service.name, service.slo, service.priority, service.padding, edges, {}, 1});
  std::vector<const plan::ReplicaGroup*> order;
  for (const auto& group : groups) order.push_back(&group);
  // Pools ascend by size, as sched::compile orders them, so that policies break ties as they will when they serve.
  std::ranges::stable_sort(order, {}, [](const auto* group) { return group->compute_slices; });
  for (const auto* group : order) {
    const auto& entry = pool_service(service, edges, *group);
    const sched::PoolId pool(static_cast<std::uint32_t>(deployment.pools.size()));
    deployment.pools.push_back({group->device_type + '/' + group->mig_profile,
                                group->compute_slices,
                                static_cast<double>(group->compute_slices),
                                {entry}});
    deployment.services[0].pools.push_back(pool);
    deployment.services[0].samples_max =
        std::max(deployment.services[0].samples_max, std::ranges::max(entry.batch_max));
    for (int n = 0; n < group->count; ++n) {
      // Each process of a replica is a place of its own: it runs one batch at a time.
      for (int process = 0; process < group->replica.processes; ++process) {
        deployment.places.push_back({DeviceId(0), pool, {}, process});
      }
    }
  }
  return deployment;
}

plan::Verdict SimulatedCertifier::certify(const Service& asked, std::span<const plan::ReplicaGroup> groups,
                                          bool confirm) {
  std::string key = content_key(asked);
  const KnownService& service = known_service(asked, key);
  // A look is no substitute for a confirmation: it has other random numbers.
  key += confirm ? "|confirm" : "|look";
  for (const auto& group : groups) {
    key += fmt::format("|{}/{}*{}*{}", group.device_type, group.mig_profile, group.count, group.replica.processes);
    for (const auto& bucket : group.replica.buckets) key += fmt::format(",{}:{}", bucket.size_max, bucket.batch_size);
  }
  const auto known = verdicts_.find(key);
  if (known != verdicts_.end()) return known->second;
  return verdicts_.emplace(std::move(key), simulate(asked, service, groups, confirm)).first->second;
}

const SimulatedCertifier::KnownService& SimulatedCertifier::known_service(const Service& service,
                                                                          const std::string& key) {
  const auto known = services_.find(key);
  if (known != services_.end()) return known->second;
  KnownService fresh{plan::planning_rate_per_s(service), plan::size_shares(service), plan::samples_mean(service),
                     service};
  fresh.bare.traffic = PoissonTraffic{};
  return services_.emplace(key, std::move(fresh)).first->second;
}

plan::Verdict SimulatedCertifier::simulate(const Service& asked, const KnownService& known,
                                           std::span<const plan::ReplicaGroup> groups, bool confirm) {
  plan::Verdict verdict;
  const double rate = known.rate_per_s * options_.rate_scale;
  if (!(rate > 0)) {
    verdict.holds = true;
    verdict.attainment = verdict.attainment_low = verdict.attainment_high = 1;
    verdict.view = "no traffic";
    return verdict;
  }
  const auto deployment = deploy(asked, groups);
  const TrafficDesign design(asked, options_.rate_scale,
                             power_of(deployment, ServiceId(0), known.sizes, known.samples_mean));
  ShareEstimate estimate(design.parts());
  const double target = asked.slo.percentile / 100;
  const double error = options_.error / options_.confirmations;
  // A promise of 99.99 % takes half a million requests, however good the slices are.
  const std::uint64_t requests_max = std::max(confirm ? options_.requests_confirm : options_.requests_look,
                                              2 * detail::requests_needed(target, error));
  Workload workload{{known.bare}};
  sim::SimulationConfig config;
  config.scheduler = options_.scheduler;
  const double spread = noise_spread(deployment);
  config.noise.spread = spread > kSpreadMin ? spread : options_.noise;
  verdict.noise = config.noise.spread;
  // Looks and confirmations have streams of their own. All covers of a service see the same replicates, so that they
  // are compared on the same traffic.
  const Rng rng = Rng(options_.seed).stream(confirm ? options_.confirm_stream : "look");
  detail::Judged judged;
  for (std::size_t check = detail::kReplicatesFirst;;) {
    const std::size_t first = estimate.replicates();
    // Two replicates show whether a cover is far off, so a look begins with these.
    const std::size_t wanted = first == 0 && !confirm ? 2 : check - first;
    TrafficRun run = design.draw(rng, first, wanted);
    workload.services[0].traffic = std::move(run.traffic);
    config.seed = rng.stream("run", first).next_u64();
    config.rate_scale = run.rate_scale;
    config.duration = run.duration;
    config.parts = std::move(run.parts);
    const auto result = sim::simulate(deployment, workload, config);
    requests_ += result.requests;
    estimate.add(result.metrics.parts);
    verdict.horizon_s += to_seconds(config.duration);
    verdict.cycles += design.cycles() * static_cast<double>(run.replicates);
    if (!confirm && detail::is_far_off(design.views(), estimate, 1 - target)) {
      verdict.attainment = verdict.attainment_high = estimate.share(design.views()[0].weight);
      break;
    }
    if (estimate.replicates() < check) continue;
    check *= 2;
    judged = detail::tightest(design.views(), estimate, error * detail::kErrorEarly);
    if (judged.interval.low >= target || detail::is_broken(design.views(), estimate, target)) break;
    const detail::Judged last = detail::tightest(design.views(), estimate, error * detail::kErrorLast);
    const bool narrow = last.interval.high - last.interval.low <= 2 * options_.indifference * (1 - target);
    if (narrow || estimate.arrived() >= requests_max) {
      judged = last;
      break;
    }
  }
  if (judged.view != nullptr) {
    verdict.attainment = judged.interval.share;
    verdict.attainment_low = judged.interval.low;
    verdict.attainment_high = judged.interval.high;
    verdict.holds = judged.interval.low >= target;
    verdict.too_close = !verdict.holds && !detail::is_broken(design.views(), estimate, target);
    verdict.view = judged.view->name;
  }
  verdict.latency = estimate.latency(design.views()[0].weight, target);
  if (verdict.holds) check_whole_trace(asked, deployment, known.bare, config, verdict);
  if (verdict.holds && design.window_pieces() > 0) {
    check_windows(design, deployment, known.bare, config, confirm, verdict);
  }
  if (!design.busiest_name().empty()) {
    verdict.busiest = design.busiest_name();
    verdict.busiest_attainment = detail::busiest_share(design, estimate);
    // What a plan goes out with also says what is so in traffic whose parts are not told apart above.
    if (auto run = confirm ? design.draw_busiest(rng) : std::nullopt) {
      workload.services[0].traffic = std::move(run->traffic);
      config.seed = rng.stream("busiest run").next_u64();
      config.rate_scale = run->rate_scale;
      config.duration = run->duration;
      config.parts = std::move(run->parts);
      const auto result = sim::simulate(deployment, workload, config);
      requests_ += result.requests;
      verdict.busiest_attainment = result.metrics.parts[1].slo_attainment();
    }
  }
  return verdict;
}

// A sample of windows does not see what only a few of them have: requests that come within an instant look like all
// others by their number and their work. A trace repeats exactly, so one run of all of it settles what its windows
// leave open. Example: 5 of 292 windows of equal work lost 960 requests each, and four draws in each class met none of
// them.
void SimulatedCertifier::check_whole_trace(const Service& asked, const sched::Deployment& deployment,
                                           const Service& bare, sim::SimulationConfig config, plan::Verdict& verdict) {
  const auto* replay = std::get_if<TraceTraffic>(&asked.traffic);
  if (replay == nullptr || replay->trace.empty() || replay->trace.size() > kTraceWholeMax) return;
  Workload workload{{bare}};
  workload.services[0].traffic = asked.traffic;
  config.seed = Rng(options_.seed).stream("whole trace").next_u64();
  config.rate_scale = options_.rate_scale;
  const double length_s = to_seconds(replay->trace.back().at - kTimeZero) / (replay->speed * options_.rate_scale);
  config.duration = from_seconds(length_s + 1e-6);
  config.parts = {};
  const auto result = sim::simulate(deployment, workload, config);
  requests_ += result.requests;
  const double share = result.metrics.total().slo_attainment();
  if (share >= asked.slo.percentile / 100) return;
  verdict.holds = false;
  verdict.attainment = verdict.attainment_low = verdict.attainment_high = share;
  verdict.view = "whole trace";
}

void SimulatedCertifier::check_windows(const TrafficDesign& design, const sched::Deployment& deployment,
                                       const Service& bare, sim::SimulationConfig config, bool confirm,
                                       plan::Verdict& verdict) {
  // 50 and 120 good windows suffice if none is bad; few show that many are. A look only tells the search where to go
  // on.
  const std::vector<std::size_t> checks =
      confirm ? std::vector<std::size_t>{30, 120, 250} : std::vector<std::size_t>{15, 50, 100};
  const double error = confirm ? options_.error / options_.confirmations / 2 : 0.1;
  detail::WindowCheck windows(bare.slo.percentile / 100, design.window_pieces());
  const Rng rng = Rng(options_.seed).stream(confirm ? options_.confirm_stream : "look");
  Workload workload{{bare}};
  std::size_t done = 0;
  for (const std::size_t wanted : checks) {
    TrafficRun run = design.draw_window_pieces(done, wanted - done);
    workload.services[0].traffic = std::move(run.traffic);
    config.seed = rng.stream("windows run", done).next_u64();
    config.rate_scale = run.rate_scale;
    config.duration = run.duration;
    config.parts = std::move(run.parts);
    const auto result = sim::simulate(deployment, workload, config);
    requests_ += result.requests;
    windows.add(result.metrics.parts);
    done = wanted;
    verdict.holds = windows.holds(error);
    if (verdict.holds || windows.is_broken(detail::kErrorReject)) break;
  }
  verdict.windows_kept = windows.kept();
  if (verdict.holds) return;
  verdict.view = "every window";
  verdict.too_close = !windows.is_broken(detail::kErrorReject);
}

}  // namespace tangram::lab

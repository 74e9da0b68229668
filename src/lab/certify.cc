// A promise is certified by simulation, not by a queueing formula: batching, buckets and the dispatch policy have no
// closed form that is exact near saturation, where plans want to be.
//
// A verdict rests on several independent runs. Their attainments give a mean and a standard error, and the promise
// holds if the lower end of the one-sided 95 % interval does. There are two kinds of questions, because a planner asks
// many: a "look", which gives up early on hopeless candidates, and a "confirm", with more requests, other seeds and one
// long run. Among many candidates, the one that looks best partly looks best by luck; other random numbers remove that
// advantage.

#include "lab/certify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/math.h"
#include "core/geometry.h"
#include "core/service_key.h"
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

// True if the rate changes in a known way, so that a peak can be planned for.
bool varies(const Service& service) {
  return std::holds_alternative<DiurnalTraffic>(service.traffic) ||
         std::holds_alternative<CurveTraffic>(service.traffic);
}

// The service as the planner sees it: a day or a curve is replaced by Poisson traffic at its peak. A run of a few
// thousand requests would otherwise see only the beginning of the day.
Service at_planning_rate(Service service) {
  if (varies(service)) service.traffic = PoissonTraffic{plan::planning_rate_per_s(service)};
  return service;
}

}  // namespace

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
  // A day or a curve is simulated at its peak, so two with the same peak are one question. Other services are not
  // copied: a trace is long.
  std::string key = varies(asked) ? content_key(at_planning_rate(asked)) : content_key(asked);
  // A look is no substitute for a confirmation: it has fewer requests.
  key += confirm ? "|confirm" : "|look";
  for (const auto& group : groups) {
    key += fmt::format("|{}/{}*{}*{}", group.device_type, group.mig_profile, group.count, group.replica.processes);
    for (const auto& bucket : group.replica.buckets) key += fmt::format(",{}:{}", bucket.size_max, bucket.batch_size);
  }
  const auto known = verdicts_.find(key);
  if (known != verdicts_.end()) return known->second;
  return verdicts_.emplace(std::move(key), simulate(asked, groups, confirm)).first->second;
}

plan::Verdict SimulatedCertifier::simulate(const Service& asked, std::span<const plan::ReplicaGroup> groups,
                                           bool confirm) {
  const Workload workload{{at_planning_rate(asked)}};
  const auto deployment = deploy(asked, groups);
  const double target = asked.slo.percentile / 100;
  sim::SimulationConfig config;
  config.scheduler = options_.scheduler;
  config.noise.spread = noise_spread(deployment);
  config.rate_scale = options_.rate_scale;
  config.requests_max = confirm ? options_.requests_confirm : options_.requests;
  // A recording may end before that many requests. The warm-up is a tenth of what really comes, or it could swallow
  // everything.
  const auto* recorded = std::get_if<TraceTraffic>(&asked.traffic);
  const std::uint64_t requests =
      recorded == nullptr ? config.requests_max : std::min<std::uint64_t>(config.requests_max, recorded->trace.size());
  config.warmup_requests = requests / 10;
  plan::Verdict verdict;
  sim::Tally all;
  double sum = 0;
  double squares = 0;
  for (std::uint64_t run = 0; run < options_.runs; ++run) {
    // Looks and confirmations never share a seed as long as there are fewer than 500 runs.
    config.seed = options_.seed * 1000 + run + (confirm ? 500 : 0);
    const auto result = sim::simulate(deployment, workload, config);
    requests_ += result.requests;
    const sim::Tally tally = result.metrics.total();
    all.add(tally);
    const double share = tally.slo_attainment();
    sum += share;
    squares += share * share;
    const double n = static_cast<double>(run + 1);
    verdict.attainment = sum / n;
    // Stop early where the answer is clear: a plan that is far off shows it in the first run, one that is off in the
    // first three. A confirmation always completes its runs.
    const double miss = 1 - target;
    if (!confirm && ((run == 0 && 1 - share > 3 * miss) || (run == 2 && 1 - verdict.attainment > 1.5 * miss))) {
      return verdict;
    }
  }
  const double n = static_cast<double>(options_.runs);
  // Rounding can make the difference slightly negative when all runs agree.
  const double variance = std::max(0.0, (squares - sum * sum / n) / std::max(1.0, n - 1));
  verdict.attainment_low = verdict.attainment - options_.deviations * std::sqrt(variance / n);
  verdict.latency = all.latency_quantile(target);
  verdict.holds = verdict.attainment_low >= target;
  if (confirm && verdict.holds) verdict.holds = endures(asked, deployment, workload, config);
  return verdict;
}

bool SimulatedCertifier::endures(const Service& asked, const sched::Deployment& deployment, const Workload& workload,
                                 sim::SimulationConfig config) {
  const double wanted = options_.endure_s * plan::planning_rate_per_s(asked) * options_.rate_scale;
  const auto requests =
      static_cast<std::uint64_t>(std::min(std::max(wanted, 0.0), static_cast<double>(options_.endure_requests_max)));
  // The confirmation was at least as long, so a further run would tell nothing new.
  if (requests <= config.requests_max) return true;
  config.requests_max = requests;
  config.warmup_requests = requests / 10;
  // A seed that no other run has.
  config.seed = options_.seed * 1000 + 999;
  const auto result = sim::simulate(deployment, workload, config);
  requests_ += result.requests;
  return result.metrics.total().slo_attainment() >= asked.slo.percentile / 100;
}

}  // namespace tangram::lab

// Promises of services that share slices: one simulation of the shared slices with all their traffic.
//
// Whose rate is steady (Poisson, constant, closed loops) is judged in one run of all services. A service whose rate
// varies is judged with the pieces of its own traffic that TrafficDesign chooses; a piece lasts seconds, in which a
// neighbour's day or burst hardly moves. So while it is judged, its neighbours have the rate of their busiest time all
// along; that of a trace is one at which random arrivals come as close together, and bring as much work, as its requests do at times, and they
// are drawn at random (its own requests come as recorded while it is judged itself). That is never too kind, it needs no knowledge of how the busy times of services coincide, and for the long
// tail that shares slices it costs little.
//
// A model that is loaded on demand is loaded by every batch here, and the slice is busy with it. In service it may
// still be there from the last request; but who asks more seldom than planned meets a cold model more often, and a
// certificate has to hold then, too.
//
// A service with one request in a minute would take a simulated day to be judged. Its rate is raised in the simulation,
// by a share of all requests and of all work that hardly matters: more load than described is on the safe side, too.
// Constant rates are not raised: which of their requests come together depends on the rates to the last digit. The share of the work counts for a seldom service whose runs are long: each of its requests may make neighbours late.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/geometry.h"
#include "core/service_key.h"
#include "lab/certify.h"
#include "lab/detail/promise_check.h"

namespace tangram::lab {
namespace {

// All raised rates together add at most this share of the requests, and of the work. A look may be more careful than
// the confirmation, and is shorter then.
constexpr double kRaisedLook = 0.08;
constexpr double kRaisedConfirm = 0.03;
// Requests of all services that one question may take, beyond what it takes for one service.
constexpr std::uint64_t kRequestsLook = 3'000'000;
constexpr std::uint64_t kRequestsConfirm = 15'000'000;
constexpr double kSpreadLeast = 1e-6;
constexpr double kTailLook = 0.02;

bool is_steady(const Service& service) {
  return std::holds_alternative<PoissonTraffic>(service.traffic) ||
         std::holds_alternative<ConstantTraffic>(service.traffic) ||
         std::holds_alternative<ClosedLoopTraffic>(service.traffic);
}

// Closed loops have no rate; they send as fast as they are answered.
bool is_loop(const Service& service) { return std::holds_alternative<ClosedLoopTraffic>(service.traffic); }

SizeDistribution histogram_of(const std::vector<plan::SizeShare>& shares) {
  HistogramSize histogram;
  for (const auto& [size, share] : shares) {
    if (share > 0) histogram.bins.push_back({size, share});
  }
  return histogram;
}

// The service with a steady rate. Sizes of a trace are drawn from it, since its requests are not replayed.
Service at_rate(const Service& service, const std::vector<plan::SizeShare>& sizes, double rate_per_s) {
  Service steady = service;
  steady.traffic = PoissonTraffic{rate_per_s};
  if (is_loop(service)) steady.traffic = service.traffic;
  if (std::holds_alternative<ConstantTraffic>(service.traffic)) steady.traffic = ConstantTraffic{rate_per_s};
  if (!std::holds_alternative<TraceTraffic>(service.traffic)) return steady;
  steady.input_size = histogram_of(sizes);
  std::vector<plan::SizeShare> numbers;
  for (const double share : plan::samples_by_number(service)) {
    numbers.push_back({static_cast<std::int64_t>(numbers.size()) + 1, share});
  }
  steady.samples = histogram_of(numbers);
  return steady;
}

// The first service that runs the same copy and has the same tensors, so that their requests may share batches. Neither
// is part of content_key().
std::size_t first_that_batches_with(std::span<const Service> services, std::size_t at) {
  std::size_t first = 0;
  while (!same_weights(services[first], services[at]) || services[first].signature() != services[at].signature()) {
    ++first;
  }
  return first;
}

std::string key_of(std::span<const Service> services, std::span<const plan::SharedGroup> groups, bool confirm) {
  std::string key = confirm ? "confirm" : "look";
  // Which services run the same copy, by the first of them: names of weights do not matter.
  for (std::size_t i = 0; i < services.size(); ++i) {
    key += fmt::format("#{}|{}", content_key(services[i]), first_that_batches_with(services, i));
  }
  for (const auto& group : groups) {
    key += fmt::format("|{}/{}*{}", group.device_type, group.mig_profile, group.count);
    for (const auto& replica : group.replicas) {
      const auto at = std::ranges::find(services, replica.service, &Service::name) - services.begin();
      key += fmt::format(";{}*{}{}", at, replica.processes, replica.load == ReplicaLoad::on_demand ? "?" : "");
      for (const auto& bucket : replica.buckets) key += fmt::format(",{}:{}", bucket.size_max, bucket.batch_size);
    }
  }
  return key;
}

}  // namespace

namespace {

// Services put together that no request can tell apart.
struct Reduced {
  std::vector<Service> services;
  std::vector<plan::SharedGroup> groups;
  std::vector<std::size_t> stands_for;  // By service of the question: the one in `services`.
};

// Random arrivals of several services are random arrivals at the sum of their rates. Where the services run the same
// copy on the same slices under the same promise, the queue does not know whose request it is, so the share in time is
// the same for all of them and is judged once, with the requests of all.
Reduced reduce(std::span<const Service> services, std::span<const plan::SharedGroup> groups) {
  Reduced reduced;
  std::map<std::string, std::size_t> first;
  for (std::size_t i = 0; i < services.size(); ++i) {
    const auto* poisson = std::get_if<PoissonTraffic>(&services[i].traffic);
    std::string key = fmt::format("{}", i);
    if (poisson != nullptr) {
      Service at_one = services[i];
      at_one.traffic = PoissonTraffic{1};
      key = fmt::format("{}|{}", content_key(at_one), first_that_batches_with(services, i));
      for (const auto& group : groups) {
        const auto own = std::ranges::find(group.replicas, services[i].name, &Replica::service);
        key += own == group.replicas.end() ? "|-" : fmt::format("|{}", own->processes);
        if (own == group.replicas.end()) continue;
        if (own->load == ReplicaLoad::on_demand) key += '?';
        for (const auto& bucket : own->buckets) key += fmt::format(",{}:{}", bucket.size_max, bucket.batch_size);
      }
    }
    const auto [found, fresh] = first.emplace(std::move(key), reduced.services.size());
    reduced.stands_for.push_back(found->second);
    if (fresh) {
      reduced.services.push_back(services[i]);
    } else {
      std::get<PoissonTraffic>(reduced.services[found->second].traffic).rate_per_s += poisson->rate_per_s;
    }
  }
  for (const auto& group : groups) {
    reduced.groups.push_back(group);
    std::erase_if(reduced.groups.back().replicas, [&](const Replica& replica) {
      return std::ranges::find(reduced.services, replica.service, &Service::name) == reduced.services.end();
    });
  }
  return reduced;
}

// How long all slices together take to load the model of a service for one request; zero where it stays loaded.
double load_s(const sched::Deployment& deployment, ServiceId service) {
  const ServiceId queue = sched::queue_of(deployment, service);
  double longest = 0;
  double places = 0;
  for (const auto& place : deployment.places) {
    const auto& entries = deployment.pools[place.pool.index()].services;
    const auto found = std::ranges::find(entries, queue, &sched::PoolService::service);
    if (found == entries.end()) continue;
    places += 1;
    if (found->model.on_demand) longest = std::max(longest, to_seconds(found->model.load));
  }
  return places > 0 ? longest / places : 0;
}

}  // namespace

// One question: the services, their slices, and what is simulated of their traffic.
struct SimulatedCertifier::Together {
  std::span<const Service> services;
  sched::Deployment deployment;
  Workload workload;                   // The services at their busiest, as neighbours.
  std::vector<TrafficDesign> designs;  // By service.
  double noise = 0;
  std::vector<plan::Verdict> verdicts;
  std::uint64_t requests = 0;  // Simulated so far.
};

// Whether every model that is loaded on demand has a load time. Nothing can be promised of one that was never timed.
bool SimulatedCertifier::loads_known(std::span<const Service> services,
                                     std::span<const plan::SharedGroup> groups) const {
  for (const auto& group : groups) {
    for (const auto& replica : group.replicas) {
      if (replica.load != ReplicaLoad::on_demand) continue;
      const auto service = std::ranges::find(services, replica.service, &Service::name);
      if (!model_.load_time(group.device_type, group.mig_profile, service->model)) return false;
    }
  }
  return true;
}

Service SimulatedCertifier::bare(const Service& service) {
  Service result = known_service(service, content_key(service)).bare;
  result.name = service.name;
  result.weights = service.weights;
  result.tensors = service.tensors;
  return result;
}

sched::Deployment SimulatedCertifier::deploy_together(std::span<const Service> services,
                                                      std::span<const plan::SharedGroup> groups) {
  sched::Deployment deployment;
  deployment.devices.push_back({"certified", Geometry{}, {}});
  for (const auto& service : services) {
    std::set<std::int64_t> edges;
    for (const auto& group : groups) {
      for (const auto& replica : group.replicas) {
        if (replica.service != service.name) continue;
        for (const auto& bucket : replica.buckets) edges.insert(bucket.size_max);
      }
    }
    deployment.services.push_back(
        {service.name, service.slo, service.priority, service.padding, {edges.begin(), edges.end()}, {}, 1});
  }
  std::vector<const plan::SharedGroup*> order;
  for (const auto& group : groups) order.push_back(&group);
  // Pools ascend by size, as sched::compile orders them.
  std::ranges::stable_sort(order, {}, [](const auto* group) { return group->compute_slices; });
  for (const auto* group : order) {
    const sched::PoolId pool(static_cast<std::uint32_t>(deployment.pools.size()));
    deployment.pools.push_back({group->device_type + '/' + group->mig_profile,
                                group->compute_slices,
                                static_cast<double>(group->compute_slices),
                                {}});
    int processes = 1;
    for (const auto& replica : group->replicas) {
      const auto at =
          static_cast<std::size_t>(std::ranges::find(services, replica.service, &Service::name) - services.begin());
      auto entry = pool_service(services[at], deployment.services[at].edges,
                                {group->device_type, group->mig_profile, group->compute_slices, replica, 1});
      entry.service = ServiceId(static_cast<std::uint32_t>(at));
      if (replica.load == ReplicaLoad::on_demand) {
        entry.model.on_demand = true;
        entry.model.stays = false;
        entry.model.load = *model_.load_time(group->device_type, group->mig_profile, services[at].model);
      }
      deployment.pools.back().services.push_back(std::move(entry));
      processes = std::max(processes, replica.processes);
    }
    for (int n = 0; n < group->count * processes; ++n) {
      deployment.places.push_back({DeviceId(0), pool, {}, n % processes});
    }
  }
  Workload workload;
  for (const auto& service : services) workload.services.push_back(bare(service));
  sched::link(workload, deployment);
  return deployment;
}

std::vector<plan::Verdict> SimulatedCertifier::certify_together(std::span<const Service> services,
                                                                std::span<const plan::SharedGroup> groups,
                                                                bool confirm) {
  if (!loads_known(services, groups)) return std::vector<plan::Verdict>(services.size());
  // A neighbour is simulated as random arrivals at its busiest, which says nothing of requests that come all at once.
  if (services.size() > 1 && std::ranges::any_of(services, plan::comes_at_once)) {
    plan::Verdict open;
    open.too_close = true;
    open.attainment_high = 1;
    open.view = "not judged: the requests of a trace come all at once";
    return std::vector<plan::Verdict>(services.size(), open);
  }
  const Reduced reduced = reduce(services, groups);
  std::string key = key_of(reduced.services, reduced.groups, confirm);
  auto known = verdicts_together_.find(key);
  if (known == verdicts_together_.end()) {
    auto verdicts = simulate_together(reduced.services, reduced.groups, confirm);
    known = verdicts_together_.emplace(std::move(key), std::move(verdicts)).first;
  }
  std::vector<plan::Verdict> verdicts;
  for (const std::size_t i : reduced.stands_for) verdicts.push_back(known->second[i]);
  return verdicts;
}

std::vector<plan::Verdict> SimulatedCertifier::simulate_together(std::span<const Service> services,
                                                                 std::span<const plan::SharedGroup> groups,
                                                                 bool confirm) {
  Together together{services, deploy_together(services, groups),          {}, {},
                    0,        std::vector<plan::Verdict>(services.size())};
  const double spread = noise_spread(together.deployment);
  together.noise = spread > kSpreadLeast ? spread : options_.noise;
  double rate_all = 0;
  double work_all = 0;
  std::vector<SlicePower> powers;
  for (std::uint32_t i = 0; i < services.size(); ++i) {
    const KnownService& known = known_service(services[i], content_key(services[i]));
    powers.push_back(power_of(together.deployment, ServiceId(i), known.sizes, known.samples_mean));
    powers.back().request_s += load_s(together.deployment, ServiceId(i));
    rate_all += plan::neighbour_load_per_s(services[i]);
    work_all += plan::neighbour_load_per_s(services[i]) * powers.back().request_s;
  }
  const double raised = (confirm ? kRaisedConfirm : kRaisedLook) / static_cast<double>(services.size());
  double load = 0;
  std::vector<double> rates;
  for (std::uint32_t i = 0; i < services.size(); ++i) {
    const KnownService& known = known_service(services[i], content_key(services[i]));
    const double least = raised * std::min(rate_all, work_all / std::max(powers[i].request_s, 1e-9));
    const double own = plan::neighbour_load_per_s(services[i]);
    // Constant rates meet each other in the same way for ever, which a raised one would not.
    rates.push_back(std::holds_alternative<ConstantTraffic>(services[i].traffic) ? own : std::max(least, own));
    load += rates.back() * powers[i].request_s;
    together.workload.services.push_back(at_rate(services[i], known.sizes, rates.back()));
  }
  std::vector<std::size_t> steady;
  std::vector<std::size_t> varying;
  for (std::size_t i = 0; i < services.size(); ++i) {
    // What matters to the length of a run is how full the slices are with the work of all.
    powers[i].request_s = load / rates[i];
    powers[i].others_per_s = std::max(0.0, rate_all - rates[i]) * options_.rate_scale;
    const Service& judged = is_steady(services[i]) ? together.workload.services[i] : services[i];
    together.designs.emplace_back(judged, options_.rate_scale, powers[i]);
    (is_steady(services[i]) ? steady : varying).push_back(i);
  }
  if (!steady.empty() && !judge(together, steady, confirm)) return together.verdicts;
  for (const std::size_t i : varying) {
    if (!judge(together, {&i, 1}, confirm)) break;
  }
  return together.verdicts;
}

bool SimulatedCertifier::judge(Together& together, std::span<const std::size_t> judged, bool confirm) {
  const Rng rng = Rng(options_.seed).stream(confirm ? options_.confirm_stream : "look");
  // All steady services have one part each. The one that takes longest to be seen often enough sets the length.
  std::size_t longest = judged[0];
  Duration length{};
  for (const std::size_t i : judged) {
    const Duration duration = together.designs[i].draw(rng, 0, 1).duration;
    if (duration <= length) continue;
    longest = i;
    length = duration;
  }
  const TrafficDesign& design = together.designs[longest];
  std::vector<ShareEstimate> estimates(judged.size(), ShareEstimate(design.parts()));
  // A look only tells the search where to go on; a block that it lets pass in error fails its confirmation.
  const double error = options_.error / options_.confirmations;
  const double tail_early = confirm ? error * detail::kErrorEarly : kTailLook;
  const double tail_last = confirm ? error * detail::kErrorLast : kTailLook;
  std::vector<bool> decided(judged.size(), false);
  sim::SimulationConfig config;
  config.scheduler = options_.scheduler;
  config.noise.spread = together.noise;
  for (std::size_t check = detail::kReplicatesFirst;;) {
    const std::size_t first = estimates[0].replicates();
    // Two replicates show whether slices are far off, so a look begins with these.
    TrafficRun run = design.draw(rng, first, first == 0 && !confirm ? 2 : check - first);
    const double scale = run.rate_scale;
    Workload workload = together.workload;
    if (!is_steady(together.services[longest])) {
      const Service& asked = together.services[longest];
      workload.services[longest] = bare(asked);
    }
    workload.services[longest].traffic = std::move(run.traffic);
    for (std::size_t i = 0; i < workload.services.size(); ++i) {
      // The scale of the run is for the traffic of the design; others are scaled to the same effect.
      auto* poisson = std::get_if<PoissonTraffic>(&workload.services[i].traffic);
      auto* constant = std::get_if<ConstantTraffic>(&workload.services[i].traffic);
      if (i != longest && poisson != nullptr) poisson->rate_per_s *= options_.rate_scale / scale;
      if (i != longest && constant != nullptr) constant->rate_per_s *= options_.rate_scale / scale;
    }
    config.seed = rng.stream("run", first).next_u64();
    config.rate_scale = scale;
    config.duration = run.duration;
    config.parts = std::move(run.parts);
    config.parts.by_service = true;
    const std::size_t parts = config.parts.count;
    const auto result = sim::simulate(together.deployment, workload, config);
    requests_ += result.requests;
    together.requests += result.requests;
    bool all = true;
    bool broken = false;
    for (std::size_t j = 0; j < judged.size(); ++j) {
      plan::Verdict& verdict = together.verdicts[judged[j]];
      estimates[j].add(std::span(result.metrics.parts).subspan(judged[j] * parts, parts));
      verdict.noise = together.noise;
      verdict.horizon_s += to_seconds(config.duration);
      verdict.cycles += design.cycles() * static_cast<double>(run.replicates);
    }
    for (std::size_t j = 0; j < judged.size() && !confirm; ++j) {
      plan::Verdict& verdict = together.verdicts[judged[j]];
      const double miss = 1 - together.services[judged[j]].slo.percentile / 100;
      if (!detail::is_far_off(design.views(), estimates[j], miss)) continue;
      verdict.attainment = verdict.attainment_high = estimates[j].share(design.views()[0].weight);
      return false;
    }
    if (estimates[0].replicates() < check) continue;
    const bool last = together.requests >= (confirm ? kRequestsConfirm : kRequestsLook);
    for (std::size_t j = 0; j < judged.size(); ++j) {
      if (decided[j]) continue;
      const Service& service = together.services[judged[j]];
      plan::Verdict& verdict = together.verdicts[judged[j]];
      const double target = service.slo.percentile / 100;
      detail::Judged now = detail::tightest(design.views(), estimates[j], tail_early);
      const detail::Judged final = detail::tightest(design.views(), estimates[j], tail_last);
      const bool lost = detail::is_broken(design.views(), estimates[j], target);
      const bool narrow = final.interval.high - final.interval.low <= 2 * options_.indifference * (1 - target);
      decided[j] = now.interval.low >= target || lost || narrow || last;
      if (decided[j] && !lost && now.interval.low < target) now = final;
      verdict.attainment = now.interval.share;
      verdict.attainment_low = now.interval.low;
      verdict.attainment_high = now.interval.high;
      verdict.holds = now.interval.low >= target;
      verdict.too_close = decided[j] && !verdict.holds && !lost;
      verdict.view = now.view->name;
      verdict.latency = estimates[j].latency(design.views()[0].weight, target);
      if (!design.busiest_name().empty() && design.parts() > 1) {
        verdict.busiest = design.busiest_name();
        verdict.busiest_attainment = detail::busiest_share(design, estimates[j]);
      }
      all = all && decided[j];
      broken = broken || (decided[j] && !verdict.holds);
    }
    // One broken promise decides a look; a confirmation reports on all.
    if (broken && !confirm) return false;
    if (all) return true;
    check *= 2;
  }
}

}  // namespace tangram::lab

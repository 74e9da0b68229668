// scheduler_swarm FIRST COUNT: made-up clusters, loads, policies and faults, one a seed.
//
// Each seed is judged twice. In sched::testing::TestWorld, which keeps books of its own: every request resolved exactly
// once, no slice used twice, no batch over its memory, time never going back, every lease returned; and which checks
// the invariants of sched::State after every event. And in sim, where the accounting has to add up. Each is run twice
// and must give the same digest. A failure prints the line that repeats it.

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/math.h"
#include "base/rng.h"
#include "base/text.h"
#include "core/geometry.h"
#include "core/layout.h"
#include "sched/background.h"
#include "sched/replay.h"
#include "sched/scheduler.h"
#include "sched/test_world.h"
#include "sim/arrivals.h"
#include "sim/simulation.h"

namespace tangram {
namespace {

using sched::testing::RequestRun;
using sched::testing::TestWorld;

char repeat_line[64];

// A failed check stops the process; the line that repeats it must be out before.
extern "C" void print_repeat_line(int) {
  std::fflush(stdout);
  const auto written = write(STDERR_FILENO, repeat_line, std::strlen(repeat_line));
  (void)written;
}

// Run times and memory of models that nobody trained.
class MadeUpModel final : public LatencyModel {
 public:
  explicit MadeUpModel(Rng rng) {
    for (int i = 0; i < 4; ++i) {
      fixed_ms_.push_back(rng.uniform(0.2, 4));
      sample_ms_.push_back(rng.uniform(0.05, 2));
      memory_.push_back(rng.uniform(0.002, 0.05));
    }
    p99_factor_ = rng.chance(0.5) ? 1 : rng.uniform(1, 1.5);
  }

  // Samples of this padded size that fit into the memory of a profile.
  std::int64_t samples_max(std::string_view model, const MigProfile& profile, std::int64_t size) const {
    return static_cast<std::int64_t>(profile.memory_gib.value / (memory_[index_of(model)] * static_cast<double>(size)));
  }

  std::optional<Prediction> predict(const RunPoint& point) const override {
    const std::size_t model = index_of(point.model);
    const Geometry& geometry = *find_geometry(point.device);
    const MigProfile& profile = geometry.profiles[*find_profile(geometry, point.mig_profile)];
    if (point.batch > samples_max(point.model, profile, point.size)) return std::nullopt;
    const double work = sample_ms_[model] * static_cast<double>(point.batch) * static_cast<double>(point.size) / 16;
    const double mean = fixed_ms_[model] + work * static_cast<double>(point.processes) / profile.compute_slices;
    return Prediction{from_milliseconds(mean), from_milliseconds(mean * p99_factor_)};
  }

 private:
  static std::size_t index_of(std::string_view model) { return static_cast<std::size_t>(model.back() - '0'); }

  std::vector<double> fixed_ms_;
  std::vector<double> sample_ms_;
  std::vector<double> memory_;
  double p99_factor_ = 1;
};

const std::vector<Layout>& layouts_of(const Geometry& geometry) {
  static std::map<std::string, std::vector<Layout>> known;
  auto& entry = known[geometry.type];
  if (entry.empty()) entry = *all_layouts(restrict_to(geometry, ProfileSet::base));
  return entry;
}

// Everything that a seed decides.
struct Case {
  Workload workload;
  std::vector<sched::Deployment> deployments;  // The first, then those that come into force later.
  std::vector<TimePoint> changes;              // By deployment after the first.
  sim::SimulationConfig config;
  double restart_fail_probability = 0;
  double background_share = 0;                        // Of the requests in the World of this file's own.
  std::vector<std::pair<TimePoint, Duration>> lends;  // When, and for how long.
  std::vector<TimePoint> losses;
  Duration horizon{};
  std::string summary;
};

SizeDistribution random_sizes(Rng& rng, std::int64_t largest) {
  switch (rng.below(3)) {
    case 0: return ConstantSize{rng.integer(1, largest)};
    case 1: return LogNormalSize{rng.uniform(1, static_cast<double>(largest)), rng.uniform(0.1, 1.5), 1, largest};
    default: {
      HistogramSize histogram;
      for (std::int64_t size = 1; size <= largest; size += rng.integer(1, largest)) {
        histogram.bins.push_back({size, rng.uniform(0.1, 1)});
      }
      return histogram;
    }
  }
}

Traffic random_traffic(Rng& rng, double rate, double seconds) {
  switch (rng.below(7)) {
    case 0: return ConstantTraffic{rate};
    case 1: return BurstTraffic{rate, rng.uniform(2, 10), seconds / 10, seconds / 4};
    case 2: return DiurnalTraffic{rate, rng.uniform(0, 1), seconds, rng.uniform(0, seconds)};
    case 3: return CurveTraffic{"", seconds / 7, 1, {rate, 0, 2 * rate, rate / 2}};
    case 4: return ClosedLoopTraffic{static_cast<int>(rng.integer(1, 12)), rng.chance(0.3) ? 0 : 1 / rate};
    case 5: {
      TraceTraffic replay;
      TimePoint at{};
      for (auto left = rng.integer(1, 60); left > 0; --left) {
        // Several requests at one instant are part of it.
        if (rng.chance(0.7)) at += from_seconds(rng.exponential(1 / rate));
        replay.trace.push_back({at, rng.integer(1, 64), rng.integer(1, 4)});
      }
      return replay;
    }
    default: return PoissonTraffic{rate};
  }
}

Service random_service(Rng& rng, std::size_t index, double seconds) {
  Service service;
  service.name = fmt::format("service-{}", index);
  service.model = fmt::format("model-{}", index);
  service.slo = {from_milliseconds(rng.chance(0.2) ? rng.uniform(1, 5) : rng.uniform(5, 200)), 99};
  service.traffic = random_traffic(rng, rng.uniform(20, 150) / seconds, seconds);
  service.input_size = std::holds_alternative<TraceTraffic>(service.traffic) && rng.chance(0.5)
                           ? SizeDistribution(TraceSize{})
                           : random_sizes(rng, rng.integer(1, 70));
  if (rng.chance(0.4)) service.samples = random_sizes(rng, rng.integer(2, 24));
  service.padding = static_cast<Padding>(rng.below(3));
  service.priority = static_cast<int>(rng.integer(-1, 1));
  return service;
}

Replica random_replica(Rng& rng, const Service& service) {
  Replica replica{service.name, {}, rng.chance(0.1) ? 2 : 1};
  std::int64_t edge = 0;
  for (auto left = rng.integer(1, 3); left > 0; --left) {
    edge += rng.integer(1, 40);
    replica.buckets.push_back({edge, rng.chance(0.2) ? 1 : rng.integer(2, 32)});
  }
  return replica;
}

Plan random_plan(Rng& rng, const Workload& workload, std::size_t devices) {
  Plan plan;
  // Slices of one kind with the same replicas form a pool, so replicas are drawn from a few.
  std::vector<std::vector<Replica>> menu;
  for (int i = 0; i < 3; ++i) {
    std::vector<Replica> replicas;
    for (const auto& service : workload.services) {
      if (rng.chance(0.75)) replicas.push_back(random_replica(rng, service));
    }
    menu.push_back(std::move(replicas));
  }
  for (std::size_t d = 0; d < devices; ++d) {
    const Geometry& geometry = *find_geometry(d % 2 == 0 ? "a100-40gb" : "a100-80gb");
    PlannedDevice device{fmt::format("gpu-{}", d), geometry.type, restrict_to(geometry, ProfileSet::base), {}};
    const auto& layouts = layouts_of(geometry);
    for (const auto& slice : layouts[rng.below(layouts.size())].slices) {
      device.slices.push_back({slice, rng.chance(0.1) ? std::vector<Replica>{} : menu[rng.below(menu.size())]});
    }
    plan.devices.push_back(std::move(device));
  }
  return plan;
}

// A service that runs the model of another one: with its weights and batches where `twins` puts the two on the same
// slices, or with weights of its own.
Service service_beside(Rng& rng, const Service& first, std::size_t index, double seconds) {
  Service service = random_service(rng, index, seconds);
  service.model = first.model;
  service.padding = first.padding;
  service.slo.late_limit = first.slo.late_limit;
  if (rng.chance(0.3)) service.weights = "tuned";
  return service;
}

// Which service of the workload runs the model of which earlier one.
using Twins = std::vector<std::pair<std::size_t, std::size_t>>;

// Puts services of one model on the same slices with the same buckets, most of the time, and limits the rates of some.
// A later plan may undo both.
void share_slices(Rng& rng, const Workload& workload, const Twins& twins, Plan& plan) {
  for (const auto& [twin, first] : twins) {
    if (rng.chance(0.3)) continue;
    for (auto& device : plan.devices) {
      for (auto& planned : device.slices) {
        const std::string& name = workload.services[twin].name;
        std::erase_if(planned.replicas, [&](const Replica& r) { return r.service == name; });
        const auto found = std::ranges::find(planned.replicas, workload.services[first].name, &Replica::service);
        if (found == planned.replicas.end()) continue;
        Replica copy = *found;
        copy.service = workload.services[twin].name;
        planned.replicas.push_back(std::move(copy));
      }
    }
  }
  for (const auto& service : workload.services) {
    if (!rng.chance(0.4)) continue;
    const double rate = rng.uniform(0.05, 1.5) * std::max(1.0, mean_rate_per_s(service.traffic));
    for (auto& device : plan.devices) {
      for (auto& planned : device.slices) {
        for (auto& replica : planned.replicas) {
          if (replica.service == service.name) replica.rate_max_per_s = rate;
        }
      }
    }
  }
}

// The next plan: another one, or the last with some devices changed.
Plan next_plan(Rng& rng, const Workload& workload, const Plan& last) {
  Plan plan = random_plan(rng, workload, std::max<std::size_t>(1, last.devices.size() + rng.below(3) - 1));
  if (rng.chance(0.3)) return plan;
  for (std::size_t d = 0; d < std::min(plan.devices.size(), last.devices.size()); ++d) {
    if (rng.chance(0.5)) plan.devices[d] = last.devices[d];
  }
  return plan;
}

// Replicas that do not fit are left out: what remains always compiles.
void drop_what_does_not_fit(Plan& plan, const Workload& workload, const MadeUpModel& model) {
  for (auto& device : plan.devices) {
    for (auto& planned : device.slices) {
      const MigProfile& profile = device.geometry.profiles[planned.slice.profile];
      std::erase_if(planned.replicas, [&](Replica& replica) {
        std::size_t s = 0;
        while (workload.services[s].name != replica.service) ++s;
        const std::string& name = workload.services[s].model;
        std::erase_if(replica.buckets,
                      [&](const PlannedBucket& b) { return model.samples_max(name, profile, b.size_max) < 1; });
        return replica.buckets.empty();
      });
    }
  }
}

sim::SimulationConfig random_config(Rng& rng, Duration horizon) {
  sim::SimulationConfig config;
  auto& scheduler = config.scheduler;
  const auto policies = sched::policies();
  scheduler.policy = policies[rng.below(policies.size())].name;
  scheduler.policy_config.merge = rng.chance(0.75);
  scheduler.policy_config.drop_unrecoverable = rng.chance(0.5);
  scheduler.policy_config.elsa_alpha = rng.chance(0.5) ? 1 : rng.uniform(0.5, 2);
  scheduler.admission = rng.chance(0.5);
  if (rng.chance(0.2)) scheduler.requests_max = static_cast<std::size_t>(rng.integer(1, 20));
  scheduler.retries_max = static_cast<int>(rng.integer(0, 2));
  scheduler.correction_weight = rng.chance(0.5) ? 0 : rng.uniform(0.01, 1);
  scheduler.stuck_min = from_milliseconds(rng.uniform(1, 2000));
  scheduler.stuck_factor = rng.uniform(2, 20);
  scheduler.reshapes_max = static_cast<int>(rng.integer(1, 4));
  scheduler.devices_cut_max = rng.chance(0.5) ? 1 : static_cast<int>(rng.integer(2, 4));
  if (rng.chance(0.6)) config.noise = {rng.chance(0.5) ? 0 : rng.uniform(0, 0.6), rng.uniform(0.6, 1.6)};
  auto& faults = config.faults;
  if (rng.chance(0.4)) faults.slow_probability = rng.uniform(0, 0.1);
  if (rng.chance(0.4)) faults.fail_probability = rng.uniform(0, 0.2);
  if (rng.chance(0.3)) faults.stuck_probability = rng.uniform(0, 0.05);
  if (rng.chance(0.4)) faults.slice_lost_mean_s = to_seconds(horizon) / rng.uniform(1, 8);
  faults.restart_s = rng.uniform(0, to_seconds(horizon) / 4);
  faults.reshape_s = rng.uniform(0, to_seconds(horizon) / 4);
  faults.reshape_fail_probability = rng.chance(0.3) ? rng.uniform(0, 1) : 0;
  faults.recall_s = rng.uniform(0, to_seconds(horizon) / 8);
  config.tenants = static_cast<std::size_t>(rng.integer(1, 3));
  config.duration = horizon;
  config.requests_max = 1200;
  config.timeline_steps = rng.below(2) * 10;
  config.batches_recorded_max = rng.below(2) * 20;
  return config;
}

Case random_case(std::uint64_t seed) {
  const Rng root(seed);
  Rng rng = root.stream("case");
  Case made;
  made.horizon = from_seconds(rng.chance(0.2) ? rng.uniform(5, 50) : rng.uniform(0.2, 3));
  const double seconds = to_seconds(made.horizon);
  for (std::size_t s = 0, count = 1 + rng.below(3); s < count; ++s) {
    made.workload.services.push_back(random_service(rng, s, seconds));
  }
  const MadeUpModel model(root.stream("model"));
  Rng sharing = root.stream("sharing");
  const bool shares = sharing.chance(0.5);
  Twins twins;
  for (std::uint64_t left = shares ? 1 + sharing.below(3) : 0; left > 0; --left) {
    const std::size_t first = sharing.below(made.workload.services.size());
    const std::size_t index = made.workload.services.size();
    made.workload.services.push_back(service_beside(sharing, made.workload.services[first], index, seconds));
    twins.emplace_back(index, first);
  }
  Plan plan = random_plan(rng, made.workload, 1 + rng.below(4));
  const auto changes = rng.chance(0.5) ? 0 : rng.below(3);
  for (std::uint64_t i = 0; i <= changes; ++i) {
    if (i > 0) plan = next_plan(rng, made.workload, plan);
    if (shares) share_slices(sharing, made.workload, twins, plan);
    drop_what_does_not_fit(plan, made.workload, model);
    made.deployments.push_back(*sched::compile(plan, made.workload, model));
    if (i > 0) made.changes.push_back(kTimeZero + from_seconds(rng.uniform(0, seconds)));
  }
  std::ranges::sort(made.changes);
  made.config = random_config(rng, made.horizon);
  made.config.seed = seed;
  if (rng.chance(0.2)) made.restart_fail_probability = rng.uniform(0, 0.7);
  for (auto left = rng.chance(0.4) ? rng.below(5) : 0; left > 0; --left) {
    made.lends.emplace_back(kTimeZero + from_seconds(rng.uniform(0, seconds)), from_seconds(rng.uniform(0, seconds)));
  }
  std::ranges::sort(made.lends);
  Rng rows = root.stream("background");
  if (rows.chance(0.3)) {
    made.background_share = rows.uniform(0, 0.7);
    const auto service = static_cast<std::uint32_t>(rows.below(made.workload.services.size()));
    made.config.background.push_back({ServiceId(service), 1 + rows.below(40)});
  }
  if (made.config.faults.slice_lost_mean_s > 0) {
    for (double at = 0; (at += rng.exponential(made.config.faults.slice_lost_mean_s)) < seconds;) {
      made.losses.push_back(kTimeZero + from_seconds(at));
    }
  }
  made.summary = fmt::format("{}{}, {} devices, {} services, {} plan changes", made.config.scheduler.policy,
                             made.config.scheduler.policy_config.merge ? "" : " alone",
                             made.deployments[0].devices.size(), made.workload.services.size(), made.changes.size());
  const auto fused = std::ranges::count_if(made.deployments[0].services, [](const auto& s) { return bool(s.joins); });
  if (fused > 0) made.summary += fmt::format(", {} fused", fused);
  return made;
}

// ---- In a World that keeps books of its own ----

class WorldRun {
 public:
  explicit WorldRun(const Case& made)
      : made_(made),
        rng_(made.config.seed),
        reality_rng_(rng_.stream("reality")),
        chance_rng_(rng_.stream("chance")),
        background_rng_(rng_.stream("background")),
        model_(rng_.stream("model")),
        world_(reality()),
        scheduler_(world_, made.deployments[0], made.config.scheduler) {
    world_.keep_log = false;
    world_.attach(scheduler_);
    for (std::size_t s = 0; s < made.workload.services.size(); ++s) {
      sources_.emplace_back(made.workload.services[s], rng_, s, 1.0);
    }
  }

  void run() {
    for (std::uint32_t s = 0; s < sources_.size(); ++s) {
      while (const auto arrival = sources_[s].next()) {
        if (arrival->at - kTimeZero > made_.horizon || !arrive(s, *arrival)) break;
      }
    }
    world_.on_resolved = [this](const RequestRun& run) { ask_again(run); };
    for (std::size_t i = 0; i < made_.changes.size(); ++i) change_plan(i, made_.changes[i]);
    for (const TimePoint at : made_.losses) world_.at(at, [this] { lose(); });
    for (const auto& [at, length] : made_.lends) {
      const Duration lent_for = length;
      world_.at(at, [this, lent_for] { lend(lent_for); });
    }
    world_.run();
    world_.judge_end();
  }

  const TestWorld& world() const { return world_; }

 private:
  TestWorld::Reality reality() {
    TestWorld::Reality reality;
    reality.run_time = [this](const sched::Batch& batch) { return run_time(batch); };
    reality.succeeds = [this](const sched::Batch&) {
      return !reality_rng_.chance(made_.config.faults.fail_probability);
    };
    reality.reshapes = [this](DeviceId) { return !reality_rng_.chance(made_.config.faults.reshape_fail_probability); };
    reality.restarts = [this](SliceId) { return !reality_rng_.chance(made_.restart_fail_probability); };
    reality.samples_max = [this](const sched::Place& place, ServiceId service, std::int64_t padded_size) {
      const auto& geometry = scheduler_.state().deployment.devices[place.device.index()].geometry;
      const auto& model = made_.workload.services[service.index()].model;
      return model_.samples_max(model, geometry.profiles[place.slice.profile], padded_size);
    };
    reality.restart_time = from_seconds(made_.config.faults.restart_s);
    reality.reshape_time = from_seconds(made_.config.faults.reshape_s);
    reality.recall_time = from_seconds(made_.config.faults.recall_s);
    return reality;
  }

  // From the prediction of this run's own model, not from what the scheduler believes.
  std::optional<Duration> run_time(const sched::Batch& batch) {
    const auto& faults = made_.config.faults;
    if (reality_rng_.chance(faults.stuck_probability)) return std::nullopt;
    const auto& place = scheduler_.state().slices[batch.slice.index()].place;
    const auto& geometry = scheduler_.state().deployment.devices[place.device.index()].geometry;
    const auto& model = made_.workload.services[batch.service.index()].model;
    const auto predicted = model_.predict(
        {geometry.type, geometry.profiles[place.slice.profile].name, model, batch.samples, batch.padded_size, 1});
    double factor = made_.config.noise.factor;
    if (made_.config.noise.spread > 0) factor *= math::exp(reality_rng_.normal(0, made_.config.noise.spread));
    if (reality_rng_.chance(faults.slow_probability)) factor *= faults.slow_factor;
    const double ns = predicted ? static_cast<double>(predicted->mean.count()) : 1e6;
    return Duration(static_cast<std::int64_t>(ns * factor) + 1);
  }

  bool arrive(std::uint32_t service, const sim::Arrival& arrival) {
    if (world_.requests().size() >= made_.config.requests_max) return false;
    Request request;
    request.service = ServiceId(service);
    request.tenant = TenantId(static_cast<std::uint32_t>(chance_rng_.below(made_.config.tenants)));
    request.priority = made_.workload.services[service].priority + (chance_rng_.chance(0.1) ? 1 : 0);
    request.samples = arrival.samples;
    request.size = arrival.size;
    request.arrival = arrival.at;
    request.deadline = arrival.at + made_.workload.services[service].slo.latency;
    if (background_rng_.chance(made_.background_share)) {
      const bool pressed = background_rng_.chance(0.2);
      request.priority = pressed ? sched::kPriorityBackgroundPressed : sched::kPriorityBackground;
      request.deadline += from_seconds(background_rng_.uniform(0, 2));
    }
    world_.arrive(request);
    return true;
  }

  void ask_again(const RequestRun& run) {
    const auto service = run.request.service.value();
    if (!sources_[service].closed_loop()) return;
    auto arrival = sources_[service].after_answer(world_.now());
    if (arrival.at - kTimeZero > made_.horizon) return;
    arrive(service, arrival);
  }

  void change_plan(std::size_t index, TimePoint at) {
    world_.at(at, [this, index] {
      if (scheduler_.moving()) {
        change_plan(index, world_.now() + from_milliseconds(10));
        return;
      }
      world_.note(fmt::format("plan change {}", index));
      scheduler_.on_plan_ready(made_.deployments[index + 1]);
    });
  }

  void lose() {
    const auto& slices = scheduler_.state().slices;
    if (slices.empty()) return;
    world_.lose(SliceId(static_cast<std::uint32_t>(chance_rng_.below(slices.size()))));
  }

  void lend(Duration length) {
    const auto pools = scheduler_.state().deployment.pools.size();
    if (pools == 0) return;
    const auto lent = scheduler_.lend_idle(sched::PoolId(static_cast<std::uint32_t>(chance_rng_.below(pools))));
    if (!lent) return;
    const SliceId slice = *lent;
    world_.at(world_.now() + length, [this, slice] { scheduler_.recall(slice); });
  }

  const Case& made_;
  Rng rng_;
  Rng reality_rng_;
  Rng chance_rng_;
  Rng background_rng_;
  MadeUpModel model_;
  std::vector<sim::ArrivalSource> sources_;
  TestWorld world_;
  sched::Scheduler scheduler_;
};

// ---- In the simulator ----

std::vector<std::string> judge_simulation(const Case& made, const sim::SimulationResult& result) {
  std::vector<std::string> complaints;
  const auto expect = [&](bool right, std::string complaint) {
    if (!right) complaints.push_back("sim: " + std::move(complaint));
  };
  const sim::Tally total = result.metrics.total();
  expect(total.arrived == result.requests, fmt::format("{} requests, {} counted", result.requests, total.arrived));
  expect(total.resolved() == total.arrived, "arrived is not served + late + rejected + failed");
  expect(total.latency.count() == total.served + total.late, "not every answer has a latency");
  sim::Tally tenants;
  for (const auto& tenant : result.metrics.tenants) tenants.add(tenant);
  expect(tenants.arrived == total.arrived && tenants.served == total.served && tenants.failed == total.failed,
         "the tenants do not add up to the services");
  std::uint64_t batches = 0;
  std::uint64_t answered = 0;
  for (std::size_t i = 0; i < result.metrics.slices.size(); ++i) {
    const auto& slice = result.metrics.slices[i];
    batches += slice.batches;
    expect(slice.busy_ns <= result.end.time_since_epoch().count(),
           fmt::format("slice {} was busy for longer than there was time", i));
    expect(slice.useful_ns <= static_cast<double>(slice.busy_ns) * 1.000001 + 1,
           fmt::format("slice {} was useful for {:.0f} ns and busy for {} ns", i, slice.useful_ns, slice.busy_ns));
  }
  expect(batches == result.batches, fmt::format("{} batches ran, {} are counted", result.batches, batches));
  for (const auto& slice : result.metrics.slices) {
    answered += slice.served + slice.late;
    expect(slice.size_real <= slice.size_padded * 1.000001, "padding made inputs smaller");
  }
  expect(answered == total.served + total.late,
         fmt::format("slices answered {} requests, services {}", answered, total.served + total.late));
  for (const auto& queues : result.metrics.queue_by_bucket) {
    for (const auto& queue : queues) expect(queue.waiting == 0, "a bucket still counts a request as waiting");
  }
  for (const auto& queue : result.metrics.queue_by_tenant) {
    expect(queue.waiting == 0, "a tenant still counts a request as waiting");
  }
  const std::uint64_t over_rate = total.rejected[static_cast<std::size_t>(RejectReason::over_rate)];
  const auto limited = [](const sched::Deployment& d) {
    return std::ranges::any_of(d.services, [](const auto& s) { return s.rate_max_per_s > 0; });
  };
  expect(over_rate == 0 || std::ranges::any_of(made.deployments, limited), "rejected over a rate that is not limited");
  expect(result.metrics.batches.size() <= made.config.batches_recorded_max, "more batches are kept than asked for");
  return complaints;
}

// ---- One seed ----

// What a recording has to be: replayed to the same decisions, byte for byte. Empty if it is.
std::string judge_recording(const std::string& recording) {
  const auto report = sched::replay("recording", recording);
  if (!report) return report.error().message;
  if (report->same && report->complete) return "";
  return fmt::format("recording:{}: recorded {}, replayed {}", report->difference_line, report->recorded,
                     report->replayed);
}

std::vector<std::string> judge(std::uint64_t seed, bool verbose) {
  const Case made = random_case(seed);
  if (verbose) fmt::print("seed {}: {}\n", seed, made.summary);
  WorldRun first(made);
  first.run();
  std::vector<std::string> complaints = first.world().complaints();
  WorldRun second(made);
  second.run();
  if (first.world().digest() != second.world().digest()) complaints.push_back("a second run has another digest");

  sim::SimulationConfig config = made.config;
  for (std::size_t i = 0; i < made.changes.size(); ++i) {
    config.plan_changes.push_back({made.changes[i], made.deployments[i + 1]});
  }
  const auto result = sim::simulate(made.deployments[0], made.workload, config);
  for (auto& complaint : judge_simulation(made, result)) complaints.push_back(std::move(complaint));
  std::string recording;
  config.recording = [&recording](std::string_view line) { recording += line; };
  const auto again = sim::simulate(made.deployments[0], made.workload, config);
  if (result.digest != again.digest) complaints.push_back("sim: a second run, on record, has another digest");
  if (auto complaint = judge_recording(recording); !complaint.empty()) complaints.push_back(std::move(complaint));
  if (verbose) {
    fmt::print("{} requests, {} batches; digests {:016x} {:016x}\n", first.world().requests().size(),
               first.world().batches().size(), first.world().digest(), result.digest);
  }
  return complaints;
}

int run(std::uint64_t first, std::uint64_t count) {
  std::uint64_t failures = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    *fmt::format_to_n(repeat_line, sizeof(repeat_line) - 1, "repeat it with: scheduler_swarm {} 1\n", seed).out = '\0';
    const auto complaints = judge(seed, count == 1);
    if (complaints.empty()) continue;
    ++failures;
    for (const auto& complaint : complaints) fmt::print("seed {}: {}\n", seed, complaint);
    fmt::print("repeat it with: scheduler_swarm {} 1\n", seed);
  }
  fmt::print("{} seeds from {}, {} failed\n", count, first, failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tangram

int main(int argc, char** argv) {
  const auto number = [&](int i) { return argc > i ? tangram::text::parse_integer(argv[i]) : std::nullopt; };
  if (argc != 3 || !number(1) || !number(2)) {
    fmt::print(stderr, "usage: scheduler_swarm FIRST COUNT\n");
    return 2;
  }
  std::signal(SIGABRT, tangram::print_repeat_line);
  return tangram::run(static_cast<std::uint64_t>(*number(1)), static_cast<std::uint64_t>(*number(2)));
}

// Simulated requests a second, metrics on, on one core.
//
// BM_Simulate times whole runs; each is verified first: every request is resolved, and a second run has the same
// digest. `requests/s` is the figure to read. BM_Decision times single events of the scheduler on the states that such
// a run passes through.

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "base/quantile_sketch.h"
#include "base/rng.h"
#include "bench/sim/cluster.h"
#include "sim/event_queue.h"

namespace tangram::bench {
namespace {

sim::SimulationConfig config_of(const std::string& policy, bool merge, std::uint64_t requests) {
  sim::SimulationConfig config;
  config.scheduler.policy = policy;
  config.scheduler.policy_config.merge = merge;
  config.requests_max = requests;
  return config;
}

bool verified(benchmark::State& state, const Cluster& cluster, const sim::SimulationConfig& config) {
  sim::SimulationConfig small = config;
  small.requests_max = 20000;
  const auto once = sim::simulate(cluster.deployment, cluster.workload, small);
  const auto twice = sim::simulate(cluster.deployment, cluster.workload, small);
  const sim::Tally tally = once.metrics.total();
  if (once.digest == twice.digest && tally.resolved() == small.requests_max && tally.arrived == small.requests_max)
    return true;
  state.SkipWithError("the simulation lost a request or did not repeat itself");
  return false;
}

struct Case {
  const char* policy;
  int gpus;
  double load;
  bool merge;
};

void simulate(benchmark::State& state, const Case& c) {
  const Cluster cluster = make_cluster(c.gpus, c.load);
  const auto config = config_of(c.policy, c.merge, static_cast<std::uint64_t>(state.range(0)));
  if (!verified(state, cluster, config)) return;
  for (auto _ : state) benchmark::DoNotOptimize(sim::simulate(cluster.deployment, cluster.workload, config).digest);
  state.counters["requests/s"] =
      benchmark::Counter(static_cast<double>(state.iterations() * state.range(0)), benchmark::Counter::kIsRate);
}

std::string name_of(const Case& c) {
  return std::string(c.policy) + (c.merge ? "_batched" : "_alone") + "/gpus:" + std::to_string(c.gpus);
}

void register_case(const Case& c, std::int64_t requests) {
  benchmark::RegisterBenchmark(("BM_Simulate/" + name_of(c)).c_str(),
                               [c](benchmark::State& state) { simulate(state, c); })
      ->Arg(requests)
      ->ArgName("requests")
      ->Unit(benchmark::kMillisecond);
  // One bare run, for bench/sim/instructions to count.
  const auto once = [c](benchmark::State& state) {
    const Cluster cluster = make_cluster(c.gpus, c.load);
    const auto config = config_of(c.policy, c.merge, static_cast<std::uint64_t>(state.range(0)));
    for (auto _ : state) benchmark::DoNotOptimize(sim::simulate(cluster.deployment, cluster.workload, config).digest);
  };
  benchmark::RegisterBenchmark(("BM_Count/" + name_of(c)).c_str(), once)
      ->Arg(20'000)
      ->Arg(40'000)
      ->ArgName("requests")
      ->Iterations(1);
}

// Peak memory of the process after a run. The runs stand in this order, so the second shows what the longer one added.
void memory(benchmark::State& state) {
  const Cluster cluster = make_cluster(8, 0.7);
  const auto config = config_of("tangram", true, static_cast<std::uint64_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(sim::simulate(cluster.deployment, cluster.workload, config).digest);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}

// A World that only keeps time: what it is asked is queued, and every call into the scheduler is timed.
class TimedWorld final : public sched::World {
 public:
  TimedWorld(const Cluster& cluster, sched::SchedulerConfig config)
      : cluster_(cluster), scheduler_(*this, cluster.deployment, std::move(config)) {}

  // Nanoseconds of each arrival and each completion, over `requests` requests.
  QuantileSketch run(std::uint64_t requests) {
    Rng rng(1);
    const double gap = 1 / mean_rate_per_s(cluster_.workload.services[0].traffic);
    for (std::uint64_t i = 0; i < requests; ++i) {
      arrival_ += from_seconds(rng.exponential(gap));
      while (!events_.empty() && events_.top().when <= arrival_) complete();
      now_ = arrival_;
      Request request;
      request.id = RequestId(i);
      request.size = 128;
      request.arrival = now_;
      request.deadline = now_ + cluster_.workload.services[0].slo.latency;
      time([&] { scheduler_.on_arrival(request); });
    }
    return std::move(sketch_);
  }

  TimePoint now() const override { return now_; }
  void wake_at(TimePoint) override {}
  void launch(const sched::Batch& batch) override {
    events_.push(now_ + batch.predicted, sim::EventLane::completion, 0, batch.slice.value(), batch.id.value());
  }
  void stop(SliceId, bool) override {}
  void restart(SliceId) override {}
  void reshape(DeviceId, const Layout&) override {}
  void lend(SliceId) override {}
  void recall(SliceId) override {}
  void resolve(const Request&, const Outcome&, const sched::Batch*) override {}

 private:
  void complete() {
    const sim::Event event = events_.pop();
    now_ = event.when;
    time([&] { scheduler_.on_batch_done({SliceId(event.index), BatchId(event.tag), true}); });
  }

  template <typename Call>
  void time(Call call) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    sketch_.add(static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count()));
  }

  const Cluster& cluster_;
  TimePoint now_;
  TimePoint arrival_;
  sim::EventQueue events_;
  QuantileSketch sketch_;
  sched::Scheduler scheduler_;
};

void decision(benchmark::State& state, bool merge, double load) {
  const Cluster cluster = make_cluster(8, load);
  sched::SchedulerConfig config;
  config.policy_config.merge = merge;
  QuantileSketch sketch;
  for (auto _ : state) sketch = TimedWorld(cluster, config).run(static_cast<std::uint64_t>(state.range(0)));
  if (sketch.count() < static_cast<std::uint64_t>(state.range(0))) state.SkipWithError("every arrival is a decision");
  state.counters["p50_ns"] = static_cast<double>(sketch.quantile(0.5));
  state.counters["p99_ns"] = static_cast<double>(sketch.quantile(0.99));
  state.counters["p99.9_ns"] = static_cast<double>(sketch.quantile(0.999));
}

const bool kRegistered = [] {
  constexpr std::int64_t kRequests = 300'000;
  for (const int gpus : {8, 1000}) {
    for (const char* policy : {"elsa", "fifs", "tangram"}) register_case({policy, gpus, 0.7, false}, kRequests);
    register_case({"tangram", gpus, 1.5, true}, kRequests);
  }
  benchmark::RegisterBenchmark("BM_Memory", memory)
      ->Arg(300'000)
      ->Arg(3'000'000)
      ->ArgName("requests")
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
  if (std::getenv("TANGRAM_BENCH_LONG") != nullptr) {
    benchmark::RegisterBenchmark("BM_Memory_long", memory)
        ->Arg(1'000'000)
        ->Arg(100'000'000)
        ->ArgName("requests")
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
  }
  const auto decide = [](const char* name, bool merge, double load) {
    benchmark::RegisterBenchmark(name, [=](benchmark::State& state) { decision(state, merge, load); })
        ->Arg(200'000)
        ->ArgName("requests")
        ->Unit(benchmark::kMillisecond);
  };
  decide("BM_Decision/alone/slices:56", false, 0.7);
  decide("BM_Decision/batched/slices:56", true, 1.5);
  return true;
}();

}  // namespace
}  // namespace tangram::bench

// The textbook queue M/M/c, by our whole scheduler with metrics on and by a bare model on SimGrid, in the same run.
//
// All must put the mean wait within 1 % of Erlang's formula before their speed counts. SimGrid's half comes in two
// ways: with its messages, as its users write it, and around them with a semaphore, the fastest way that we found.
// Both are timed by the processor, so that other programs on the machine disturb neither more than the other.
// SimGrid runs as a program of its own (sim_simgrid_mmc), because its engine cannot be started twice in one process;
// without SimGrid its half is left out.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "bench/sim/cluster.h"

namespace tangram::bench {
namespace {

constexpr int kServers = 16;
constexpr double kServiceMs = 10;
constexpr double kLoad = 0.8;
// Ours takes a second, SimGrid's fifteen: the median of as many runs, or a slow moment of the machine would decide.
constexpr std::size_t kRuns = 15;

double offered_rate_per_s() { return kLoad * kServers * 1000 / kServiceMs; }

// Erlang C: mean wait = P(wait) * service / (servers * (1 - load)).
double mean_wait_ms() {
  const double erlangs = kLoad * kServers;
  double term = 1;
  double sum = 1;
  for (int k = 1; k < kServers; ++k) {
    term *= erlangs / k;
    sum += term;
  }
  const double last = term * erlangs / kServers / (1 - kLoad);
  return last / (sum + last) * kServiceMs / (kServers * (1 - kLoad));
}

bool wait_is_right(benchmark::State& state, double wait_ms) {
  state.counters["wait_error"] = wait_ms / mean_wait_ms() - 1;
  return std::abs(wait_ms / mean_wait_ms() - 1) <= 0.01;
}

void mmc_tangram(benchmark::State& state) {
  sched::Deployment deployment;
  deployment.devices.push_back({"bench", *find_geometry("a100-80gb"), {}});
  const Slo slo{std::chrono::seconds(10), 99};
  deployment.services.push_back({"model", slo, 0, Padding::bucket, {1}, {sched::PoolId(0)}, 1});
  sched::PoolService entry{ServiceId(0), {1}, sched::LatencyTable(1, 1)};
  entry.latency.set(0, 1, {from_milliseconds(kServiceMs), from_milliseconds(kServiceMs)});
  deployment.pools.push_back({"server", 1, 1, {entry}});
  for (int i = 0; i < kServers; ++i) deployment.places.push_back({DeviceId(0), sched::PoolId(0), {}, 0});
  Workload workload;
  Service service;
  service.name = service.model = "model";
  service.slo = slo;
  service.traffic = PoissonTraffic{offered_rate_per_s()};
  workload.services.push_back(service);
  sim::SimulationConfig config;
  config.scheduler.policy = "fifs";
  config.scheduler.policy_config.merge = false;
  config.noise.exponential = true;
  config.requests_max = static_cast<std::uint64_t>(state.range(0));
  config.warmup_requests = config.requests_max / 20;
  double wait_ms = 0;
  double seconds = 0;
  for (auto _ : state) {
    std::array<double, kRuns> took{};
    for (double& run : took) {
      const std::clock_t begin = std::clock();
      wait_ms = to_milliseconds(sim::simulate(deployment, workload, config).metrics.total().wait_mean());
      run = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    }
    std::ranges::nth_element(took, took.begin() + kRuns / 2);
    seconds = took[kRuns / 2];
    state.SetIterationTime(seconds);
  }
  const bool long_enough = state.range(0) >= 3'000'000;
  if (!wait_is_right(state, wait_ms) && long_enough) state.SkipWithError("the mean wait is not Erlang's");
  state.counters["requests/s"] = static_cast<double>(state.range(0)) / seconds;
}

#ifdef TANGRAM_SIMGRID_MMC
// The child prints its own seconds in the simulation loop and the mean wait.
void mmc_simgrid(benchmark::State& state, const char* how) {
  double seconds = 0;
  double wait_ms = 0;
  for (auto _ : state) {
    const std::string command = fmt::format("{} {} {} {} {} {} 2>/dev/null", TANGRAM_SIMGRID_MMC, kServers,
                                            kServiceMs / 1000, offered_rate_per_s(), state.range(0), how);
    std::FILE* child = popen(command.c_str(), "r");
    const bool read = child != nullptr && std::fscanf(child, "%lf %lf", &seconds, &wait_ms) == 2;
    if (child != nullptr) pclose(child);
    if (!read) {
      state.SkipWithError("SimGrid's half did not answer");
      return;
    }
    state.SetIterationTime(seconds);
  }
  const bool long_enough = state.range(0) >= 3'000'000;
  if (!wait_is_right(state, wait_ms) && long_enough) state.SkipWithError("the mean wait is not Erlang's");
  state.counters["requests/s"] = static_cast<double>(state.range(0)) / seconds;
}
#endif

// Short in every test run; `--benchmark_filter=BM_Mmc_Full` is the figure of the documentation.
void register_pair(const char* task, std::int64_t requests) {
  const auto name = [&](const char* who) { return fmt::format("{}/{}", task, who); };
  benchmark::RegisterBenchmark(name("tangram").c_str(), mmc_tangram)
      ->Arg(requests)
      ->ArgName("requests")
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
#ifdef TANGRAM_SIMGRID_MMC
  for (const char* how : {"mailbox", "semaphore"}) {
    const auto run = [how](benchmark::State& state) { mmc_simgrid(state, how); };
    benchmark::RegisterBenchmark(fmt::format("{}/simgrid_{}", task, how).c_str(), run)
        ->Arg(requests)
        ->ArgName("requests")
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
#endif
}

const bool kRegistered = [] {
  register_pair("BM_Mmc", 50'000);
  if (std::getenv("TANGRAM_BENCH_LONG") != nullptr) register_pair("BM_Mmc_long", 3'000'000);
  return true;
}();

}  // namespace
}  // namespace tangram::bench

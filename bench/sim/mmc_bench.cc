// The textbook queue M/M/c, by our whole scheduler with metrics on and by a bare model on SimGrid, in the same run.
//
// All must put the mean wait within 1 % of Erlang's formula before their speed counts. SimGrid's half comes in two
// ways: with its messages, as its users write it, and around them with a semaphore, the fastest way that we found.
// Both are timed by the processor, so that other programs on the machine disturb neither more than the other, and the
// long form has them take turns, so that a slow moment of the machine meets both. SimGrid runs as a program of its own
// (sim_simgrid_mmc), because its engine cannot be started twice in one process; without SimGrid its half is left out.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <vector>

#include "bench/sim/cluster.h"

namespace tangram::bench {
namespace {

constexpr int kServers = 16;
constexpr double kServiceMs = 10;
constexpr double kLoad = 0.8;
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

bool wait_is_right(double error) { return std::abs(error) <= 0.01; }

// What one half says of its run.
struct Run {
  double seconds = 0;  // Of the processor.
  double wait_ms = 0;  // The mean.

  double wait_error() const { return wait_ms / mean_wait_ms() - 1; }
};

struct Length {
  std::int64_t requests;
  std::uint64_t seed;
};

Run run_tangram(const Length& length) {
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
  config.seed = length.seed;
  config.requests_max = static_cast<std::uint64_t>(length.requests);
  config.warmup_requests = config.requests_max / 20;
  const std::clock_t begin = std::clock();
  const double wait_ms = to_milliseconds(sim::simulate(deployment, workload, config).metrics.total().wait_mean());
  return {static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, wait_ms};
}

// Times a half alone. Few requests do not tell whether its wait is right.
template <typename Half>
void time_alone(benchmark::State& state, Half half) {
  std::optional<Run> run;
  for (auto _ : state) {
    run = half(Length{state.range(0), 1});
    state.SetIterationTime(run ? run->seconds : 0);
  }
  if (!run) return state.SkipWithError("SimGrid's half did not answer");
  state.counters["wait_error"] = run->wait_error();
  state.counters["requests/s"] = static_cast<double>(state.range(0)) / run->seconds;
  const bool long_enough = state.range(0) >= 3'000'000;
  if (long_enough && !wait_is_right(run->wait_error())) state.SkipWithError("the mean wait is not Erlang's");
}

#ifdef TANGRAM_SIMGRID_MMC
// The child prints its own seconds in the simulation loop and the mean wait. Nothing: it did not.
std::optional<Run> run_simgrid(const char* how, const Length& length) {
  const std::string command = fmt::format("{} {} {} {} {} {} {} 2>/dev/null", TANGRAM_SIMGRID_MMC, kServers,
                                          kServiceMs / 1000, offered_rate_per_s(), length.requests, length.seed, how);
  std::FILE* child = popen(command.c_str(), "r");
  if (child == nullptr) return std::nullopt;
  Run run;
  const bool read = std::fscanf(child, "%lf %lf", &run.seconds, &run.wait_ms) == 2;
  pclose(child);
  return read ? std::optional(run) : std::nullopt;
}

// Each round has a seed of its own: ours, SimGrid's, ours again. What counts is the median of the rounds' ratios; the
// mean wait is that of all rounds together.
void take_turns(benchmark::State& state, const char* how) {
  constexpr std::uint64_t kRounds = 7;
  std::vector<double> ratios;
  Run ours;
  Run simgrid;
  for (auto _ : state) {
    for (std::uint64_t seed = 1; seed <= kRounds; ++seed) {
      const Length length{state.range(0), seed};
      const Run before = run_tangram(length);
      const auto peer = run_simgrid(how, length);
      const Run after = run_tangram(length);
      if (!peer) return state.SkipWithError("SimGrid's half did not answer");
      const double seconds = (before.seconds + after.seconds) / 2;
      ratios.push_back(peer->seconds / seconds);
      ours = {ours.seconds + seconds, ours.wait_ms + before.wait_ms / kRounds};
      simgrid = {simgrid.seconds + peer->seconds, simgrid.wait_ms + peer->wait_ms / kRounds};
    }
    state.SetIterationTime(ours.seconds);
  }
  std::ranges::sort(ratios);
  const auto requests = static_cast<double>(state.range(0)) * kRounds;
  state.counters = {{"times_as_fast", ratios[kRounds / 2]},
                    {"least", ratios.front()},
                    {"most", ratios.back()},
                    {"requests/s", requests / ours.seconds},
                    {"simgrid_requests/s", requests / simgrid.seconds},
                    {"wait_error", ours.wait_error()},
                    {"simgrid_wait_error", simgrid.wait_error()}};
  if (!wait_is_right(ours.wait_error()) || !wait_is_right(simgrid.wait_error()))
    state.SkipWithError("the mean wait is not Erlang's");
}
#endif

template <typename Benchmark>
void add(const std::string& name, std::int64_t requests, Benchmark run) {
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->Arg(requests)
      ->ArgName("requests")
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

// Short in every test run; with TANGRAM_BENCH_LONG set, the figures of the documentation.
const bool kRegistered = [] {
  const bool long_too = std::getenv("TANGRAM_BENCH_LONG") != nullptr;
  const auto alone = [](benchmark::State& state) { time_alone(state, run_tangram); };
  add("BM_Mmc/tangram", 50'000, alone);
  if (long_too) add("BM_Mmc_long/tangram", 3'000'000, alone);
#ifdef TANGRAM_SIMGRID_MMC
  for (const char* how : {"mailbox", "semaphore"}) {
    const auto half = [how](const Length& length) { return run_simgrid(how, length); };
    add(fmt::format("BM_Mmc/simgrid_{}", how), 50'000, [half](benchmark::State& state) { time_alone(state, half); });
    if (!long_too) continue;
    add(fmt::format("BM_Mmc_long/in_turns_with_simgrid_{}", how), 1'000'000,
        [how](benchmark::State& state) { take_turns(state, how); });
  }
#endif
  return true;
}();

}  // namespace
}  // namespace tangram::bench

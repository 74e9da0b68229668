// Planning to proved optimality, planning anew after one rate changed, and a thousand services at once.
//
// Every plan is judged by check_plan before its time counts, and every seed is a benchmark of its own. The large
// problems run where TANGRAM_BENCH_LONG is set; a test run tries small ones. `data` is 1 where the public profiles
// were found.

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdlib>

#include "bench/plan/instances.h"
#include "plan/check_plan.h"
#include "plan/demand.h"
#include "plan/replan.h"

namespace tangram::plan::bench {
namespace {

double memory_peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

PlanAnswer plan_with_elastic(const Problem& problem) { return find_planner("elastic")->make()->plan(problem); }

// False: told to the benchmark, which then fails.
bool verify(benchmark::State& state, const Problem& problem, const PlanAnswer& answer) {
  std::string wrong;
  if (answer.status != PlanStatus::planned) wrong = answer.reason;
  if (answer.bound > answer.price + 1e-6) wrong = "the bound is above the price";
  if (wrong.empty()) {
    const auto errors = check_plan(problem, answer.plan);
    if (!errors.empty()) wrong = errors[0];
  }
  if (!wrong.empty()) state.SkipWithError(wrong.c_str());
  return wrong.empty();
}

void report(benchmark::State& state, const PlanAnswer& answer) {
  state.counters["data"] = data_is_present() ? 1 : 0;
  state.counters["devices"] = answer.devices;
  state.counters["gap_percent"] = 100 * (answer.price / answer.bound - 1);
  state.counters["memory_mib"] = memory_peak_mib();
  state.counters["proved"] = answer.proved ? 1 : 0;
}

// The share of the price by which a plan may lie above the bound.
void time_planning(benchmark::State& state, const InstanceOptions& options, double gap_max) {
  const auto instance = make_instance(options);
  PlanAnswer answer = plan_with_elastic(instance->problem);
  for (auto _ : state) answer = plan_with_elastic(instance->problem);
  if (!verify(state, instance->problem, answer)) return;
  if (answer.plan != plan_with_elastic(instance->problem).plan) return state.SkipWithError("two runs differ");
  if (answer.price > answer.bound * (1 + gap_max) + 1e-6) state.SkipWithError("the gap is too wide");
  report(state, answer);
}

// One service, drawn by the seed, is asked for twice or half as often. The plan from scratch is not timed.
void time_replanning(benchmark::State& state, const InstanceOptions& options, double factor) {
  const auto instance = make_instance(options);
  const PlanAnswer before = plan_with_elastic(instance->problem);
  Problem changed = instance->problem;
  Rng rng = Rng(options.seed).stream("change");
  // One of the ten that are asked for most, so that slices have to come or go.
  std::vector<std::size_t> order(options.services);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto rate_of = [&](std::size_t s) { return planning_rate_per_s(changed.workload.services[s]); };
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return rate_of(a) > rate_of(b); });
  const std::size_t service = order[rng.below(std::min<std::size_t>(10, order.size()))];
  changed.workload.services[service].traffic = PoissonTraffic{factor * rate_of(service)};
  Replanned answer;
  for (auto _ : state) answer = replan(changed, before);
  if (!verify(state, changed, answer.answer)) return;
  const PlanAnswer scratch = plan_with_elastic(changed);
  const double points = 100 * (answer.answer.price - scratch.price) / answer.answer.bound;
  if (points > 2) state.SkipWithError("more than two points worse than from scratch");
  report(state, answer.answer);
  state.counters["points_worse"] = points;
  state.counters["moved"] = answer.replicas_moved;
  state.counters["loaded"] = answer.replicas_loaded;
  state.counters["recut"] = answer.devices_recut;
}

std::string name_of(const char* what, const InstanceOptions& options) {
  return std::string(what) + "/services:" + std::to_string(options.services) + (options.sizes ? "/buckets:5" : "") +
         (options.tight ? "/tight" : "") + (options.mixed ? "/mixed" : "") + "/seed:" + std::to_string(options.seed);
}

void add_planning(const InstanceOptions& options, double gap_max) {
  benchmark::RegisterBenchmark(name_of("BM_Plan", options).c_str(), time_planning, options, gap_max)
      ->Unit(benchmark::kMillisecond);
}

void add_replanning(const InstanceOptions& options, double factor) {
  const std::string name = name_of("BM_Replan", options) + (factor > 1 ? "/rate:x2" : "/rate:half");
  benchmark::RegisterBenchmark(name.c_str(), time_replanning, options, factor)->Unit(benchmark::kMillisecond);
}

// Registered before main, as the macros of the library do.
[[maybe_unused]] const bool kRegistered = [] {
  const bool all = std::getenv("TANGRAM_BENCH_LONG") != nullptr;
  for (std::uint64_t seed = 1; seed <= (all ? 5 : 1); ++seed) {
    add_planning({.services = 11, .seed = seed}, 0);
    add_replanning({.services = all ? 100U : 20U, .seed = seed}, 2);
    if (!all) add_planning({.services = 20, .seed = seed, .sizes = true}, 0.02);
    if (!all) continue;
    add_replanning({.services = 100, .seed = seed}, 0.5);
    add_replanning({.services = 100, .seed = seed, .tight = true}, 2);
    add_planning({.services = 1000, .seed = seed, .sizes = true}, 0.02);
    add_planning({.services = 1000, .seed = seed, .sizes = true, .tight = true}, 0.02);
    add_planning({.services = 1000, .seed = seed, .sizes = true, .mixed = true}, 0.02);
    add_planning({.services = 11, .seed = seed, .tight = true}, 0);
    add_planning({.services = 11, .seed = seed, .mixed = true}, 0.2);
    add_planning({.services = 11, .seed = seed, .sizes = true, .mixed = true}, 0.2);
    add_planning({.services = 100, .seed = seed, .mixed = true}, 0.05);
  }
  return true;
}();

}  // namespace
}  // namespace tangram::plan::bench

// A week of a large cluster that inference and training share, under our allocator.
//
// Jobs of six made-up applications come all week; a few of them need hundreds of GPU-hours. Requests hold a GPU for
// some seconds each and are placed at once. With TANGRAM_BENCH_LONG the cluster has 10,000 GPUs and 20,000 jobs.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "experiments/inference_load.h"
#include "experiments/shared_cluster.h"
#include "lab/synthetic_training.h"

namespace tangram::experiments {
namespace {

constexpr double kWeek_s = 7 * 86400;

struct Kind {
  const char* name;
  int epochs;
  double epoch_steps;
  int batch_min;
  int batch_max;
  int worker_batch_max;
  double sample_ms;
  int share;  // Of a hundred jobs.
};
constexpr Kind kKinds[] = {
    {"tables", 10, 800, 256, 16384, 4096, 0.02, 34}, {"small-images", 60, 400, 128, 4096, 1024, 0.5, 33},
    {"speech", 60, 1200, 20, 640, 80, 9, 6},         {"language", 3, 12000, 12, 384, 12, 30, 6},
    {"detection", 40, 6000, 8, 512, 8, 40, 3},       {"large-images", 90, 15000, 200, 12800, 200, 3, 18}};

train::Applications applications() {
  train::Applications made;
  for (const auto& kind : kKinds) {
    lab::SyntheticApplication application;
    application.name = kind.name;
    application.epochs = kind.epochs;
    application.epoch_steps = kind.epoch_steps;
    application.batch_min = kind.batch_min;
    application.batch_max = kind.batch_max;
    application.worker_batch_max = kind.worker_batch_max;
    application.sample_ms = kind.sample_ms;
    made.emplace(kind.name, lab::application_of(application));
  }
  return made;
}

std::vector<formats::ClusterJob> jobs_of_a_week(const train::Applications& known, int jobs, int requests) {
  lab::SyntheticJobs made{jobs, kWeek_s / jobs, {}};
  for (const auto& kind : kKinds)
    made.applications.insert(made.applications.end(), static_cast<std::size_t>(kind.share), kind.name);
  auto all = lab::jobs_of(made, known, 1);
  InferenceLoad load{.name = "week", .requests = requests, .gap_mean_s = kWeek_s / requests, .applications = 30};
  std::ranges::move(make_inference(load, {"bert", "cifar10"}, 1), std::back_inserter(all));
  return all;
}

void BM_Week(benchmark::State& state) {
  const auto known = applications();
  const auto jobs = jobs_of_a_week(known, static_cast<int>(state.range(1)), static_cast<int>(state.range(2)));
  SharedRun run = tangram_run();
  run.nodes = static_cast<int>(state.range(0)) / run.gpus_per_node;
  SharedResult result;
  for (auto _ : state) result = run_shared(known, jobs, run);
  if (result.jcts_s.size() != static_cast<std::size_t>(state.range(1))) return state.SkipWithError("a job was lost");
  if (result.leases != result.leases_ended) return state.SkipWithError("a lease did not end");
  state.counters["rounds"] = static_cast<double>(result.rounds);
  state.counters["jct_mean_s"] = result.jct_mean_s;
  state.counters["utilisation"] = result.gpu_utilisation;
  state.counters["wait_mean_s"] = result.overhead_mean_s;
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"gpus", "jobs", "requests"})->Unit(benchmark::kMillisecond)->Iterations(1);
  bench->Args({64, 40, 500});
  if (std::getenv("TANGRAM_BENCH_LONG") == nullptr) return;
  bench->Args({1000, 2000, 20000});
  bench->Args({10000, 20000, 100000});
}
BENCHMARK(BM_Week)->Apply(sizes);

}  // namespace
}  // namespace tangram::experiments

// One scheduling round of each allocator, as jobs and GPUs grow.

#include <benchmark/benchmark.h>

#include "train/allocator.h"
#include "train/test_application.h"

namespace tangram::train {
namespace {

// Jobs that each hold one GPU of four, and know what one, two and four are worth.
struct Cluster {
  Application app = test_application("net", 50);
  std::shared_ptr<const BatchMenu> menu = std::make_shared<BatchMenu>(limits_of(app), 64);
  std::shared_ptr<StepKnowledge> steps = std::make_shared<StepKnowledge>(menu);
  std::vector<JobModel> models;
  std::vector<Allocation> current;
  std::vector<int> free;
  std::vector<JobView> views;

  explicit Cluster(int jobs) : free(static_cast<std::size_t>(jobs), 4) {
    for (const int gpus : {1, 2, 4}) {
      steps->observe({1, gpus, 64, app.step_time({gpus}, 64)}, {1, 8});
    }
    models.assign(static_cast<std::size_t>(jobs), JobModel(steps));
    for (int j = 0; j < jobs; ++j) current.push_back({{j, 1}});
    for (int j = 0; j < jobs; ++j) {
      const auto i = static_cast<std::size_t>(j);
      views.push_back({.id = static_cast<std::uint32_t>(j),
                       .application = &app,
                       .model = &models[i],
                       .current = &current[i],
                       .submit_s = static_cast<double>(j),
                       .age_s = 1000.0 + j,
                       .progress_left = 100.0 + j % 977,
                       .replicas_asked = 4,
                       .batch_asked = 256,
                       .replicas_max = 8});
    }
  }
};

void round_of(benchmark::State& state, const char* name) {
  const Cluster cluster(static_cast<int>(state.range(0)));
  const auto allocator = find_allocator(name)->make({});
  std::vector<Allocation> allocations;
  for (auto _ : state) {
    allocations = allocator->allocate({.now_s = 6000, .gpus_free = cluster.free, .jobs = cluster.views});
  }
  int gpus = 0;
  for (const auto& allocation : allocations) gpus += gpus_of(allocation);
  free_beside(cluster.free, allocations);
  if (gpus < state.range(0)) return state.SkipWithError("jobs went without a GPU");
  state.counters["gpus"] = static_cast<double>(4 * state.range(0));
}

BENCHMARK_CAPTURE(round_of, tangram, "tangram")->ArgName("jobs")->RangeMultiplier(8)->Range(8, 2500);
BENCHMARK_CAPTURE(round_of, deepboot, "deepboot")->ArgName("jobs")->Arg(8)->Arg(64)->Arg(512);
BENCHMARK_CAPTURE(round_of, pollux, "pollux")->ArgName("jobs")->Arg(8)->Arg(16);

}  // namespace
}  // namespace tangram::train

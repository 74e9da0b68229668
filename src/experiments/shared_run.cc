// The costs that DeepBoot measured, and the two ways of running a cluster that are compared: as published, and ours.

#include "experiments/shared_run.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace tangram::experiments {
namespace {

constexpr std::string_view kInferencePrefix = "infer-";

// "infer-bert-2" is of the kind "bert".
std::string kind_of(const std::string& application) {
  std::string kind = application;
  if (kind.starts_with(kInferencePrefix)) kind = kind.substr(kInferencePrefix.size());
  const auto dash = kind.rfind('-');
  const bool numbered =
      dash != std::string::npos && kind.find_first_not_of("0123456789", dash + 1) == std::string::npos;
  return numbered ? kind.substr(0, dash) : kind;
}

struct NamedCosts {
  const char* kind;
  SharingCosts costs;
};
// Seconds: {full restart, fast restart} of training, then the cold start of inference.
constexpr NamedCosts kCosts[] = {
    {"bert", {{103, 5}, 8}},       {"cifar10", {{24, 3}, 6}}, {"ncf", {{25, 2}, 4}},
    {"deepspeech2", {{18, 1}, 4}}, {"yolov3", {{26, 3}, 6}},  {"imagenet", {{35, 3}, 6}},
};

}  // namespace

SharingCosts sharing_costs(const std::string& application) {
  const auto* const found = std::ranges::find(kCosts, kind_of(application), &NamedCosts::kind);
  if (found != std::end(kCosts)) return found->costs;
  // The mean of the measured kinds.
  return {{38, 3}, 6};
}

SharedRun deepboot_run() {
  SharedRun run;
  run.options.population = run.options.generations = 50;  // Of Pollux, as DeepBoot runs it.
  return run;
}

SharedRun tangram_run() {
  SharedRun run = deepboot_run();
  run.allocator = "tangram";
  run.keep_warm.kind = train::KeepWarmKind::demand;
  run.reclaim = train::ReclaimKind::cheapest;
  run.interval_s = 120;  // Rounds are held when jobs come and go; between them, inference returns few GPUs.
  run.prompt = true;
  run.first_ready = true;
  run.learn_together = true;
  return run;
}

std::vector<AblatedRun> ablated_runs() {
  std::vector<AblatedRun> runs;
  const auto add = [&runs](const char* options, SharedRun run, const auto& change) {
    change(run);
    runs.push_back({options, std::move(run)});
  };
  const SharedRun ours = tangram_run();
  const SharedRun published = deepboot_run();
  add("whole_gpu_no_work_left", ours, [](SharedRun& run) { run.options.work_left_known = false; });
  add("whole_gpu_no_shared_steps", ours, [](SharedRun& run) { run.learn_together = false; });
  add("whole_gpu_timer", ours, [](SharedRun& run) { run.keep_warm.kind = train::KeepWarmKind::timer; });
  add("whole_gpu_no_first_ready", ours, [](SharedRun& run) { run.first_ready = false; });
  add("whole_gpu_least_loss", ours, [](SharedRun& run) { run.reclaim = train::ReclaimKind::least_loss; });
  add("whole_gpu_clock_rounds", ours, [&](SharedRun& run) {
    run.prompt = published.prompt;
    run.interval_s = published.interval_s;
  });
  add("ATSI_AFE_demand", published, [&](SharedRun& run) { run.keep_warm = ours.keep_warm; });
  add("whole_gpu", ours, [&](SharedRun& run) { run.allocator = published.allocator; });
  return runs;
}

}  // namespace tangram::experiments

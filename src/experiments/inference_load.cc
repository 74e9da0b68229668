// Poisson arrivals by exponential gaps; a rate that varies is made from a constant one by thinning, which is exact for
// any shape of the rate that stays below the peak.

#include "experiments/inference_load.h"

#include <cmath>

#include "base/check.h"
#include "base/rng.h"

namespace tangram::experiments {
namespace {

constexpr double kDay_s = 4 * 3600;  // Of the periodic load: several of its days fit into one run.

// A triangle wave between -1 and 1: its mean is 0, and it needs no library function.
double wave(double at_s, double period_s) {
  const double phase = at_s / period_s - std::floor(at_s / period_s);
  return phase < 0.5 ? 4 * phase - 1 : 3 - 4 * phase;
}

}  // namespace

std::vector<InferenceLoad> heavier_loads() {
  return {{.name = "5x", .requests = 16000, .gap_mean_s = 3.5, .duration_max_s = 19, .applications = 18},
          {.name = "10x", .requests = 32000, .gap_mean_s = 1.7, .duration_max_s = 29, .applications = 30},
          {.name = "periodic",
           .requests = 16000,
           .gap_mean_s = 3.5,
           .duration_max_s = 19,
           .applications = 18,
           .period_s = kDay_s}};
}

std::vector<formats::ClusterJob> make_inference(const InferenceLoad& load, const std::vector<std::string>& kinds,
                                                std::uint64_t seed) {
  TANGRAM_CHECK(!kinds.empty(), "an application is of some kind");
  Rng rng = Rng(seed).stream("inference");
  std::vector<formats::ClusterJob> jobs;
  double at_s = 0;
  const double peak = load.period_s > 0 ? 1 + load.swing : 1;
  while (static_cast<int>(jobs.size()) < load.requests) {
    at_s += rng.exponential(load.gap_mean_s / peak);
    // Thinning: of arrivals at the peak rate, each stays with the share that the rate has now.
    if (load.period_s > 0 && !rng.chance((1 + load.swing * wave(at_s, load.period_s)) / peak)) continue;
    const auto application = static_cast<std::size_t>(rng.below(static_cast<std::uint64_t>(load.applications)));
    const std::string name = kinds[application % kinds.size()] + "-" + std::to_string(application / kinds.size() + 1);
    jobs.push_back({.name = "inference-" + name + "-" + std::to_string(jobs.size()),
                    .submit_s = std::floor(at_s),
                    .application = "infer-" + name,
                    .kind = formats::JobKind::inference,
                    .duration_s = static_cast<double>(rng.integer(load.duration_min_s, load.duration_max_s))});
  }
  return jobs;
}

}  // namespace tangram::experiments

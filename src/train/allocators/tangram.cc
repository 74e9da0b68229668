// Ours: numbers of GPUs by a knapsack over what each job's speed is worth, changes priced by what they cost, and GPUs
// placed so that they can be reclaimed cheaply.
//
// The mean completion time falls most if work that ends soon is fast, so a speed-up is worth more the less time a job
// has left. Returns fall, so that no job starves: the value is w * s^p / p with the speed-up s, the exponent p =
// `fairness` (-1 is the harmonic mean of Pollux, 1 the plain sum) and a weight w that falls with the time left. A
// change is worth what it gains over the time for which it will last, less the pause of the restart.

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "train/knapsack_allocator.h"

namespace tangram::train {
namespace {

constexpr double kSpeedupFloor = 1e-3;  // Keeps values finite for jobs without GPUs.
const double kRootOfFloor = std::sqrt(kSpeedupFloor);

class Tangram final : public KnapsackAllocator {
 public:
  explicit Tangram(const AllocatorOptions& options) : options_(options) {}

 private:
  // Box-Cox: (s^p - floor^p) / p, shifted so that no GPUs are worth 0. Special cases avoid a power for the common
  // exponents; the logarithm is the limit for p = 0.
  double value(double speedup, double weight) const {
    const double p = options_.fairness;
    const double s = speedup + kSpeedupFloor;
    if (p == 0.5) return weight * 2 * (std::sqrt(s) - kRootOfFloor);
    if (p == 0) return weight * (math::log(s) - math::log(kSpeedupFloor));
    if (p == -1) return weight * (1 / kSpeedupFloor - 1 / s);
    return weight * (math::pow(s, p) - math::pow(kSpeedupFloor, p)) / p;
  }

  std::vector<double> values_of(const JobView& job, const RoundView& view, int gpus) const override {
    const Speedup speedup(*job.model, std::max(gpus, 1), static_cast<int>(view.jobs.size()));
    const int now = gpus_of(*job.current);
    // Time left at the fair share.
    const int share = (gpus + static_cast<int>(view.jobs.size()) - 1) / static_cast<int>(view.jobs.size());
    const int fair = std::clamp(share, 1, job.model->replicas_max());
    // An unknown job counts as an hour, which gives it the weight 1.
    double left_s = 3600;
    if (job.model->known()) {
      const double rate = job.model->goodput(1, fair) / job.model->limits().batch_min;
      if (rate > 0) left_s = job.progress_left / rate;
    }
    left_s = std::max(left_s, 30.0);
    const double weight = math::pow(left_s / 3600, -options_.urgency);
    const double horizon_s = std::clamp(left_s, options_.horizon_min_s, options_.horizon_max_s);
    std::vector<double> values;
    for (int w = 1; w <= std::min(job.replicas_max, gpus); ++w) {
      const int nodes = (w + view.gpus_per_node - 1) / view.gpus_per_node;
      double rate = speedup(nodes, w);
      // A job without GPUs starts in any case, so its pause only stretches the horizon. A running job could go on
      // instead, so the pause is lost work; a pause longer than the horizon makes the change worthless.
      if (w != now) {
        const double pause_s = now == 0 || w == now ? job.restart_full_s
                               : w < now
                                   ? job.restart_fast_s
                                   : job.restart_fast_s + (job.restart_full_s - job.restart_fast_s) * (w - now) / w;
        rate *= now == 0 ? horizon_s / (horizon_s + pause_s) : std::max(1 - pause_s / horizon_s, 0.0);
      }
      values.push_back(value(rate, weight));
    }
    return values;
  }

  AllocatorOptions options_;
};

}  // namespace

std::unique_ptr<Allocator> make_tangram(const AllocatorOptions& options) { return std::make_unique<Tangram>(options); }

}  // namespace tangram::train

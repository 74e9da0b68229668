// Ours: numbers of GPUs by a knapsack over what each job's speed is worth, changes priced by what they cost, and GPUs
// placed so that they can be reclaimed cheaply.
//
// The value of a job is its speed-up times a weight, which is what a second of its work adds to the sum of completion
// times. For jobs that are all present and speed up with the square root of their GPUs, that has a closed form (heSRPT,
// Berg, Vesilo and Harchol-Balter, 2020): sqrt(2k - 1) for the job with the k-th most time left. So weights follow from
// the order of the jobs alone. Work that ends soon is worth most, because many jobs wait behind it, but the weights of
// neighbours differ little: a job whose rank is low among 20 still counts 1/6 of the first, however long it is. A
// weight by the time left itself does not have that bound and lets the longest jobs starve.
//
// A change is worth what it gains over the time for which it will last, less the pause of the restart.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "train/knapsack_allocator.h"

namespace tangram::train {
namespace {

constexpr double kLeftUnknown_s = 3600;  // Of a job of which nothing is known yet.
constexpr double kLeftMin_s = 30;        // Below it, predictions mean nothing.

class Tangram final : public KnapsackAllocator {
 public:
  explicit Tangram(const AllocatorOptions& options) : options_(options) {}

 private:
  // What begin_round() finds out about a job, at the index of the job in the view.
  struct Standing {
    double left_s = kLeftUnknown_s;  // At the fair share.
    double weight = 1;
  };

  static double left_s(const JobView& job, int fair) {
    if (!job.model->known()) return kLeftUnknown_s;
    const double rate =
        job.model->goodput(1, std::clamp(fair, 1, job.model->replicas_max())) / job.model->limits().batch_min;
    return rate > 0 ? std::max(job.progress_left / rate, kLeftMin_s) : kLeftUnknown_s;
  }

  void begin_round(const RoundView& view, int gpus) override {
    const auto jobs = static_cast<int>(view.jobs.size());
    standings_.assign(view.jobs.size(), {});
    if (!options_.work_left_known) return;
    for (std::size_t i = 0; i < view.jobs.size(); ++i) {
      standings_[i].left_s = left_s(view.jobs[i], (gpus + jobs - 1) / jobs);
    }
    std::vector<std::size_t> order(view.jobs.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // Of equals, the one that was submitted first goes first, so the order does not change from round to round.
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
      if (standings_[a].left_s != standings_[b].left_s) return standings_[a].left_s > standings_[b].left_s;
      return view.jobs[a].id > view.jobs[b].id;
    });
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      standings_[order[rank]].weight = std::sqrt(2 * static_cast<double>(rank) + 1);
    }
  }

  // Seconds for which the job stands still if it gets `w` GPUs instead of `now`.
  static double pause_s(const JobView& job, int now, int w) {
    if (w == now) return 0;
    if (now == 0) return job.restart_full_s;
    if (w < now) return job.restart_fast_s;
    // New workers start from nothing, the others wait for them.
    return job.restart_fast_s + (job.restart_full_s - job.restart_fast_s) * (w - now) / w;
  }

  std::vector<double> values_of(const JobView& job, const RoundView& view, int gpus) const override {
    const Speedup speedup(*job.model, std::max(gpus, 1), static_cast<int>(view.jobs.size()));
    const Standing& standing = standings_[static_cast<std::size_t>(&job - view.jobs.data())];
    const int now = gpus_of(*job.current);
    const double horizon_s = options_.work_left_known
                                 ? std::clamp(standing.left_s, options_.horizon_min_s, options_.horizon_max_s)
                                 : options_.horizon_max_s;
    std::vector<double> values;
    for (int w = 1; w <= std::min(job.replicas_max, gpus); ++w) {
      const int nodes = (w + view.gpus_per_node - 1) / view.gpus_per_node;
      const double pause = pause_s(job, now, w);
      // A job without GPUs starts in any case, so its pause only stretches the horizon. A running job could go on
      // instead, so the pause is lost work; a pause longer than the horizon makes the change worthless.
      const double kept = now == 0 ? horizon_s / (horizon_s + pause) : std::max(1 - pause / horizon_s, 0.0);
      values.push_back(standing.weight * speedup(nodes, w) * kept);
    }
    return values;
  }

  AllocatorOptions options_;
  std::vector<Standing> standings_;  // Of the round that is held.
};

}  // namespace

std::unique_ptr<Allocator> make_tangram(const AllocatorOptions& options) { return std::make_unique<Tangram>(options); }

}  // namespace tangram::train

// AFS (NSDI'21): GPUs go one by one to the job that wins a tournament of marginal throughput.
//
// Of two jobs without GPUs the shorter goes first. Otherwise the job that would gain the larger share of its throughput
// from one more GPU goes first. The allocator is given the true throughput; see true_runtime.h.

#include <algorithm>

#include "train/true_runtime.h"

namespace tangram::train {
namespace {

class Afs final : public Allocator {
 public:
  bool keeps_batches() const override { return true; }

  std::vector<Allocation> allocate(const RoundView& view) override {
    std::vector<Candidate> candidates;
    for (const auto& job : view.jobs) candidates.push_back(candidate_of(job, view));
    std::vector<int> counts(view.jobs.size(), 0);
    for (int left = view.gpus(); left > 0; --left) {
      const auto winner = tournament(candidates, counts);
      if (winner == counts.size()) break;
      ++counts[winner];
    }
    return place_counts(view, counts);
  }

 private:
  struct Candidate {
    double alone_s = 0;         // Left on one GPU.
    std::vector<double> gains;  // Share of the throughput with one more GPU that it adds.
  };

  static Candidate candidate_of(const JobView& job, const RoundView& view) {
    Candidate candidate;
    candidate.alone_s = true_iterations_left(job) * true_step_s(job, 1, view.gpus_per_node);
    const int most = std::min(fixed_batch_replicas_max(job), view.gpus());
    double before = 0;
    for (int w = 1; w <= most; ++w) {
      const double now = split_batch(limits_of(*job.application), job.batch_asked, w).total(w) /
                         true_step_s(job, w, view.gpus_per_node);
      // The gain is a share of the throughput after the GPU is added, so that jobs of different speed compare.
      candidate.gains.push_back((now - before) / now);
      before = now;
    }
    return candidate;
  }

  // The number of jobs if none can use another GPU.
  // One pass over the jobs; the winner of all comparisons so far meets the next job.
  static std::size_t tournament(const std::vector<Candidate>& candidates, const std::vector<int>& counts) {
    std::size_t best = counts.size();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (static_cast<std::size_t>(counts[i]) >= candidates[i].gains.size()) continue;
      if (best == counts.size() || beats(candidates, counts, i, best)) best = i;
    }
    return best;
  }

  static bool beats(const std::vector<Candidate>& candidates, const std::vector<int>& counts, std::size_t i,
                    std::size_t j) {
    // Both would gain everything from their first GPU, so the gains do not tell them apart.
    if (counts[i] == 0 && counts[j] == 0) return candidates[i].alone_s < candidates[j].alone_s;
    return candidates[i].gains[static_cast<std::size_t>(counts[i])] >
           candidates[j].gains[static_cast<std::size_t>(counts[j])];
  }
};

}  // namespace

std::unique_ptr<Allocator> make_afs(const AllocatorOptions&) { return std::make_unique<Afs>(); }

}  // namespace tangram::train

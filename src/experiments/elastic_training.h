// The training side of a shared cluster: jobs, the rounds of their allocator, and the GPUs that they have on loan.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "experiments/shared_run.h"
#include "lab/job_table.h"
#include "train/allocator.h"
#include "train/application.h"

namespace tangram::experiments {

// Allocations as they will be once several requests have taken GPUs: one change for each job, however many it loses.
struct TrainingDraft {
  std::vector<std::size_t> jobs;
  std::vector<train::Allocation> allocations;
  std::vector<train::JobView> views;  // Their `current` points into `allocations`.

  TrainingDraft() = default;
  TrainingDraft(TrainingDraft&&) = default;
  TrainingDraft(const TrainingDraft&) = delete;

  std::vector<int> gpus_on_nodes(int nodes) const;
  // All training leaves `node`; how many GPUs that are.
  int leave(int node);
};

class ElasticTraining {
 public:
  // Takes the jobs of kind training, whose applications are all known.
  ElasticTraining(const train::Applications& applications, const std::vector<formats::ClusterJob>& jobs,
                  const SharedRun& run);

  const lab::JobTable& jobs() const { return jobs_; }
  int gpus() const;
  std::vector<int> gpus_on_nodes() const;

  // Jobs run from `now_s` to `next_s`. Those that end return their GPUs; those that are submitted by `next_s` come in.
  void advance(double now_s, double next_s);

  // True if a job came or went since the last round, which is some seconds ago.
  bool early_round_due(double now_s) const;
  // When a scheduler that holds early rounds has to look at the jobs again: one comes, or may have ended.
  double next_look_s(double now_s) const;
  // The allocator divides `lendable` GPUs of each node among the present jobs. Without jobs no round is held.
  void hold_round(double now_s, std::vector<int> lendable);

  // The present allocations, to be changed and then applied.
  TrainingDraft draft(double now_s) const;
  void apply(const TrainingDraft& draft) { reallocate(draft.jobs, draft.allocations); }

  std::int64_t rounds() const { return rounds_; }
  std::int64_t leases() const { return leases_; }  // GPUs lent, each time that one is.
  std::int64_t leases_ended() const { return leases_ended_; }

 private:
  // Gives each job its allocation and counts the leases that begin and end.
  void reallocate(const std::vector<std::size_t>& jobs, const std::vector<train::Allocation>& allocations);

  SharedRun run_;
  std::unique_ptr<train::Allocator> allocator_;
  lab::JobTable jobs_;
  double last_round_s_ = 0;
  bool changed_ = false;  // A job came or went since the last round.
  std::int64_t rounds_ = 0;
  std::int64_t leases_ = 0;
  std::int64_t leases_ended_ = 0;
};

}  // namespace tangram::experiments

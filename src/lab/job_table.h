// The training jobs of a simulated cluster: which are present, what the scheduler sees of them, and what a change
// costs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "formats/jobs_file.h"
#include "lab/training_job.h"
#include "train/allocator.h"
#include "train/restart.h"

namespace tangram::lab {

// Jobs are named by the order in which they were added.
class JobTable {
 public:
  struct Options {
    bool learn_together = false;  // Jobs of one application share what they know of its step times.
    bool keeps_batches = false;   // Of the allocator: jobs run with the batch that their users asked for.
    int replicas_max = 64;        // What a batch is divided among at most.
    train::RestartKind restart = train::RestartKind::fast;
  };
  explicit JobTable(const Options& options) : options_(options) {}

  void add(const train::Application& application, const formats::ClusterJob& job, const train::RestartCost& cost);

  std::size_t count() const { return jobs_.size(); }
  std::size_t left() const { return left_; }
  const TrainingJob& job(std::size_t i) const { return jobs_[i]; }
  // As its user submitted it.
  const formats::ClusterJob& asked(std::size_t i) const { return asked_[i]; }
  // The first that has not ended; there is one.
  std::size_t first_left() const;
  // From submission to completion, in the order of the jobs; 0 for those that run still.
  const std::vector<double>& completion_times_s() const { return jcts_; }
  double last_end_s() const { return last_end_s_; }

  // Lets jobs in that are submitted by then. True if any was.
  bool admit(double now_s);
  // Seconds until the next submission is; none left: infinite.
  double next_submit_s() const;
  // Those submitted and not ended, ascending by number.
  const std::vector<std::size_t>& present() const { return present_; }
  // The same, ascending by attained service, then by submission, as allocators want them.
  std::vector<std::size_t> ranked() const;

  // Lets every job run from `now_s` on; `interference` holds how much slower each is, by number, or nothing. Calls
  // `ended(i)` for each that ended; it has its GPUs still and loses them then. True if any ended.
  template <typename Ended>
  bool advance(double now_s, double seconds, const std::vector<double>& interference, Ended&& ended);

  train::JobView view_of(std::size_t i, double now_s) const;
  std::vector<train::JobView> views_of(const std::vector<std::size_t>& jobs, double now_s) const;

  // Other GPUs, with the pause that the change costs. Nothing happens if they are the same.
  void reallocate(std::size_t i, const train::Allocation& allocation);

  double restarts_per_job() const;

 private:
  // Lets one job run; returns the seconds that it ran. Ensures that its progress does not fall.
  double advance_one(std::size_t i, double seconds, double interference);
  // Records that a job ended at `end_s` and takes its GPUs away. Requires that it is done.
  void end(std::size_t i, double end_s);

  Options options_;
  std::map<const train::Application*, std::shared_ptr<const train::BatchMenu>> menus_;
  std::map<const train::Application*, std::shared_ptr<train::StepKnowledge>> knowledge_;
  std::vector<TrainingJob> jobs_;
  std::vector<formats::ClusterJob> asked_;
  std::vector<train::RestartCost> costs_;
  std::vector<double> jcts_;
  // Jobs that are not in yet, the next one last. Sorted when first asked for after an add(), so that adding n jobs
  // costs one sort; const calls change only the order.
  mutable std::vector<std::size_t> by_submit_;
  mutable bool sorted_ = true;
  std::vector<std::size_t> present_;
  std::size_t left_ = 0;
  double last_end_s_ = 0;
};

template <typename Ended>
bool JobTable::advance(double now_s, double seconds, const std::vector<double>& interference, Ended&& ended) {
  bool any = false;
  for (const std::size_t i : present_) {
    const double passed = advance_one(i, seconds, interference.empty() ? 0 : interference[i]);
    if (!jobs_[i].done()) continue;
    ended(i);
    end(i, now_s + passed);
    any = true;
  }
  if (any) std::erase_if(present_, [&](std::size_t i) { return jobs_[i].done(); });
  return any;
}

}  // namespace tangram::lab

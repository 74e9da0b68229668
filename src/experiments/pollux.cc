// The simulation of Pollux: time advances by whole intervals, and the allocator decides at the end of each. Submissions
// and ends of jobs within an interval take effect on GPUs at its end.

#include "experiments/pollux.h"

#include <memory>

#include "base/check.h"
#include "lab/job_table.h"

namespace tangram::experiments {
namespace {

lab::JobTable::Options table_options(const train::Allocator& allocator) {
  // As published: each job learns alone, and every change of its GPUs is a full restart.
  return {.learn_together = false,
          .keeps_batches = allocator.keeps_batches(),
          .replicas_max = 64,
          .restart = train::RestartKind::full};
}

std::unique_ptr<train::Allocator> allocator_of(const PolluxRun& run) {
  const auto* info = train::find_allocator(run.allocator);
  TANGRAM_CHECK(info != nullptr, "the allocator is one of the list");
  train::AllocatorOptions options = run.options;
  options.restart_s = run.restart_s;
  return info->make(options);
}

class Cluster {
 public:
  Cluster(const train::Applications& applications, const std::vector<formats::ClusterJob>& jobs, const PolluxRun& run)
      : run_(run),
        free_(static_cast<std::size_t>(run.nodes), run.gpus_per_node),
        allocator_(allocator_of(run)),
        jobs_(table_options(*allocator_)) {
    for (const auto& job : jobs) {
      jobs_.add(applications.find(job.application)->second, job, {run.restart_s, run.restart_s});
    }
  }

  PolluxResult run() {
    while (jobs_.left() > 0 && now_s_ < lab::kClusterTimeMax_s) {
      // Jobs run with the GPUs of the last decision. Interference is that of the allocations at the beginning of the
      // interval.
      jobs_.advance(now_s_, run_.interval_s, interference(), [](std::size_t) {});
      now_s_ += run_.interval_s;
      jobs_.admit(now_s_);
      reallocate();
    }
    return result();
  }

 private:
  // By job: how much slower it runs. Jobs that span several nodes share the network, so they slow each other down on
  // every node where two of them meet.
  std::vector<double> interference() const {
    if (run_.interference == 0) return {};
    std::vector<int> spread(free_.size(), 0);
    for (const std::size_t i : jobs_.present()) {
      const auto& allocation = jobs_.job(i).allocation();
      if (allocation.size() < 2) continue;
      for (const auto& share : allocation) ++spread[static_cast<std::size_t>(share.node)];
    }
    std::vector<double> slow(jobs_.count(), 0);
    for (const std::size_t i : jobs_.present()) {
      const auto& allocation = jobs_.job(i).allocation();
      if (allocation.size() < 2) continue;
      for (const auto& share : allocation) {
        if (spread[static_cast<std::size_t>(share.node)] > 1) slow[i] = run_.interference;
      }
    }
    return slow;
  }

  void reallocate() {
    const auto active = jobs_.ranked();
    // An allocator need not handle a cluster without jobs.
    if (active.empty()) return;
    const auto views = jobs_.views_of(active, now_s_);
    const auto allocations = allocator_->allocate({.now_s = now_s_,
                                                   .interval_s = run_.interval_s,
                                                   .gpus_per_node = run_.gpus_per_node,
                                                   .gpus_free = free_,
                                                   .jobs = views,
                                                   .spread_apart = run_.spread_apart});
    // Called for its check that no GPU is used twice. All GPUs are free at every decision: allocations are made afresh.
    train::free_beside(free_, allocations);
    for (std::size_t k = 0; k < active.size(); ++k) jobs_.reallocate(active[k], allocations[k]);
  }

  PolluxResult result() const {
    PolluxResult result;
    result.jcts_s = jobs_.completion_times_s();
    result.end_s = now_s_;
    // The loop ended at the time limit.
    if (jobs_.left() > 0) result.unfinished = jobs_.asked(jobs_.first_left()).name;
    result.restarts_per_job = jobs_.restarts_per_job();
    for (const double jct : result.jcts_s) result.jct_mean_s += jct / static_cast<double>(result.jcts_s.size());
    return result;
  }

  PolluxRun run_;
  std::vector<int> free_;
  std::unique_ptr<train::Allocator> allocator_;
  lab::JobTable jobs_;
  double now_s_ = 0;
};

}  // namespace

PolluxResult run_pollux(const train::Applications& applications, const std::vector<formats::ClusterJob>& jobs,
                        const PolluxRun& run) {
  return Cluster(applications, jobs, run).run();
}

}  // namespace tangram::experiments

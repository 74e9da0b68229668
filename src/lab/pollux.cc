#include "lab/pollux.h"

#include <algorithm>
#include <map>
#include <memory>

#include "base/check.h"
#include "lab/training_job.h"

namespace tangram::lab {
namespace {

constexpr double kDayLimit_s = 365.0 * 86400;  // A cluster that never ends its jobs is a bug.

class Cluster {
 public:
  Cluster(const train::Applications& applications, const std::vector<formats::Job>& jobs, const PolluxRun& run)
      : run_(run), asked_(jobs), free_(static_cast<std::size_t>(run.nodes), run.gpus_per_node) {
    const auto* info = train::find_allocator(run.allocator);
    TANGRAM_CHECK(info != nullptr, "the allocator is one of the list");
    train::AllocatorOptions options = run.options;
    options.restart_s = run.restart_s;
    allocator_ = info->make(options);
    for (const auto& job : jobs) add(applications.find(job.application)->second, job);
  }

  PolluxResult run() {
    while (left_ > 0) {
      TANGRAM_CHECK(now_s_ < kDayLimit_s, "every job ends");
      step();
    }
    return result();
  }

 private:
  void add(const train::Application& application, const formats::Job& job) {
    auto& menu = menus_[&application];
    if (!menu) menu = std::make_shared<train::BatchMenu>(limits_of(application), run_.nodes * run_.gpus_per_node);
    jobs_.emplace_back(application, std::make_shared<train::StepKnowledge>(menu), job.submit_s);
    if (allocator_->keeps_batches()) {
      jobs_.back().fix_batch(static_cast<int>(job.batch));
    } else if (application.runs_alone()) {
      jobs_.back().fix_batch(application.batch_max());
    }
    jcts_.push_back(0);
    ++left_;
  }

  // Jobs of several nodes suffer where they meet.
  std::vector<double> interference() const {
    std::vector<int> spread(free_.size(), 0);
    for (const auto& job : jobs_) {
      if (job.done() || job.allocation().size() < 2) continue;
      for (const auto& share : job.allocation()) ++spread[static_cast<std::size_t>(share.node)];
    }
    std::vector<double> slow(jobs_.size(), 0);
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (jobs_[i].allocation().size() < 2) continue;
      for (const auto& share : jobs_[i].allocation()) {
        if (spread[static_cast<std::size_t>(share.node)] > 1) slow[i] = run_.interference;
      }
    }
    return slow;
  }

  void step() {
    const auto slow = interference();
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      TrainingJob& job = jobs_[i];
      if (job.done() || job.submit_s() > now_s_ + run_.interval_s) continue;
      const double passed = job.advance(run_.interval_s, slow[i]);
      if (!job.done()) continue;
      jcts_[i] = now_s_ + passed - job.submit_s();
      job.reallocate({}, 0);
      --left_;
    }
    now_s_ += run_.interval_s;
    reallocate();
  }

  void reallocate() {
    std::vector<std::size_t> active;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!jobs_[i].done() && jobs_[i].submit_s() <= now_s_) active.push_back(i);
    }
    if (active.empty()) return;
    std::ranges::stable_sort(active, {},
                             [&](std::size_t i) { return std::pair(jobs_[i].attained_s(), jobs_[i].submit_s()); });
    std::vector<train::JobView> views;
    for (const std::size_t i : active) views.push_back(view_of(i));
    const auto allocations = allocator_->allocate({.now_s = now_s_,
                                                   .interval_s = run_.interval_s,
                                                   .gpus_per_node = run_.gpus_per_node,
                                                   .gpus_free = free_,
                                                   .jobs = views,
                                                   .spread_apart = run_.spread_apart});
    train::free_beside(free_, allocations);
    for (std::size_t k = 0; k < active.size(); ++k) {
      TrainingJob& job = jobs_[active[k]];
      if (job.allocation() != allocations[k]) job.reallocate(allocations[k], run_.restart_s);
    }
  }

  train::JobView view_of(std::size_t i) const {
    const TrainingJob& job = jobs_[i];
    return {.id = static_cast<std::uint32_t>(i),
            .application = &job.application(),
            .model = &job.model(),
            .current = &job.allocation(),
            .submit_s = job.submit_s(),
            .age_s = now_s_ - job.submit_s(),
            .attained_s = job.attained_s(),
            .progress_left = job.progress_left(),
            .restarts = job.restarts(),
            .epoch = job.epoch(),
            .replicas_asked = static_cast<int>(asked_[i].replicas),
            .batch_asked = static_cast<int>(asked_[i].batch),
            .replicas_max = job.replicas_max(),
            .restart_full_s = run_.restart_s,
            .restart_fast_s = run_.restart_s};
  }

  PolluxResult result() const {
    PolluxResult result;
    result.jcts_s = jcts_;
    result.end_s = now_s_;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      result.jct_mean_s += jcts_[i] / static_cast<double>(jobs_.size());
      result.restarts_per_job += jobs_[i].restarts() / static_cast<double>(jobs_.size());
    }
    return result;
  }

  PolluxRun run_;
  const std::vector<formats::Job>& asked_;
  std::vector<int> free_;
  std::unique_ptr<train::Allocator> allocator_;
  std::map<const train::Application*, std::shared_ptr<const train::BatchMenu>> menus_;
  std::vector<TrainingJob> jobs_;
  std::vector<double> jcts_;
  std::size_t left_ = 0;
  double now_s_ = 0;
};

}  // namespace

PolluxResult run_pollux(const train::Applications& applications, const std::vector<formats::Job>& jobs,
                        const PolluxRun& run) {
  return Cluster(applications, jobs, run).run();
}

}  // namespace tangram::lab

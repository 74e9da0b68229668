// The training jobs of a simulated cluster. A job is submitted later, present, or done; it passes through these states
// once and in this order. Invariants: present_ is ascending, by_submit_ holds exactly the jobs that are not admitted
// yet, and left_ counts the jobs that are not done.

#include "lab/job_table.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace tangram::lab {

void JobTable::add(const train::Application& application, const formats::ClusterJob& job,
                   const train::RestartCost& cost) {
  // The menu of batches depends on the application alone, so all of its jobs share one.
  auto& menu = menus_[&application];
  if (!menu) menu = std::make_shared<train::BatchMenu>(limits_of(application), options_.replicas_max);
  auto& shared = knowledge_[&application];
  // Jobs that do not learn together get knowledge of their own. The map then only remembers the last one.
  if (!shared || !options_.learn_together) shared = std::make_shared<train::StepKnowledge>(menu);
  jobs_.emplace_back(application, shared, job.submit_s);
  // Where the allocator does not choose batches, the job keeps the batch that its user asked for.
  if (options_.keeps_batches) {
    jobs_.back().fix_batch(static_cast<int>(job.batch));
    // A second worker gains nothing where one holds the largest batch, so there is nothing left to choose.
  } else if (application.runs_alone()) {
    jobs_.back().fix_batch(application.batch_max());
  }
  by_submit_.push_back(asked_.size());
  sorted_ = false;
  asked_.push_back(job);
  costs_.push_back(cost);
  jcts_.push_back(0);
  ++left_;
}

bool JobTable::admit(double now_s) {
  bool any = false;
  // The next job is last in by_submit_, so that removing it costs nothing.
  for (; next_submit_s() <= now_s; by_submit_.pop_back(), any = true) present_.push_back(by_submit_.back());
  if (any) std::ranges::sort(present_);
  return any;
}

double JobTable::next_submit_s() const {
  if (!sorted_) {
    // Descending, the next one last.
    std::ranges::stable_sort(by_submit_, std::greater{}, [&](std::size_t i) { return asked_[i].submit_s; });
    sorted_ = true;
  }
  return by_submit_.empty() ? std::numeric_limits<double>::infinity() : asked_[by_submit_.back()].submit_s;
}

std::size_t JobTable::first_left() const {
  std::size_t i = 0;
  while (jobs_[i].done()) ++i;
  return i;
}

std::vector<std::size_t> JobTable::ranked() const {
  std::vector<std::size_t> ranked = present_;
  // Stable on an ascending list: jobs that are equal in both keep their order, and so do all runs with the same seed.
  std::ranges::stable_sort(ranked, {},
                           [&](std::size_t i) { return std::pair(jobs_[i].attained_s(), jobs_[i].submit_s()); });
  return ranked;
}

double JobTable::advance_one(std::size_t i, double seconds, double interference) {
  TrainingJob& job = jobs_[i];
  // Checked here for every caller: a job that lost progress would end too late, and every completion time after it be
  // wrong.
  const double progress = job.progress();
  const double passed = job.advance(seconds, interference);
  TANGRAM_CHECK(job.progress() >= progress, "progress never goes back");
  return passed;
}

void JobTable::end(std::size_t i, double end_s) {
  jcts_[i] = end_s - jobs_[i].submit_s();
  last_end_s_ = std::max(last_end_s_, end_s);
  // Without a pause: a job that is done does not start again.
  jobs_[i].reallocate({}, 0);
  --left_;
}

train::JobView JobTable::view_of(std::size_t i, double now_s) const {
  const TrainingJob& job = jobs_[i];
  // Where every restart is a full one, allocators must not count on the fast cost.
  const bool fast = options_.restart == train::RestartKind::fast;
  return {.id = static_cast<std::uint32_t>(i),
          .application = &job.application(),
          .model = &job.model(),
          .current = &job.allocation(),
          .submit_s = job.submit_s(),
          .age_s = now_s - job.submit_s(),
          .attained_s = job.attained_s(),
          .progress_left = job.progress_left(),
          .restarts = job.restarts(),
          .epoch = job.epoch(),
          .replicas_asked = static_cast<int>(asked_[i].replicas),
          .batch_asked = static_cast<int>(asked_[i].batch),
          .replicas_max = job.replicas_max(),
          .restart_full_s = costs_[i].full_s,
          .restart_fast_s = fast ? costs_[i].fast_s : costs_[i].full_s};
}

std::vector<train::JobView> JobTable::views_of(const std::vector<std::size_t>& jobs, double now_s) const {
  std::vector<train::JobView> views;
  views.reserve(jobs.size());
  for (const std::size_t i : jobs) views.push_back(view_of(i, now_s));
  return views;
}

void JobTable::reallocate(std::size_t i, const train::Allocation& allocation) {
  TrainingJob& job = jobs_[i];
  // A job that keeps its GPUs does not notice the round. Otherwise every round would cost it a restart.
  if (job.allocation() == allocation) return;
  const double pause_s = train::restart_s(options_.restart, costs_[i], job.gpus(), train::gpus_of(allocation));
  job.reallocate(allocation, pause_s);
}

double JobTable::restarts_per_job() const {
  double sum = 0;
  for (const auto& job : jobs_) sum += job.restarts();
  return jobs_.empty() ? 0 : sum / static_cast<double>(jobs_.size());
}

}  // namespace tangram::lab

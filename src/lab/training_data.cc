// Rows of training files become applications: timed steps say how fast an iteration is on each placement, validation
// runs how much progress an iteration makes at each batch.

#include "lab/training_data.h"

#include <fmt/format.h>

#include <map>

namespace tangram::lab {
namespace {

// The rows of one application. Validation runs are keyed by batch, which also sorts them.
struct Rows {
  std::vector<train::TimedStep> steps;
  std::map<std::int64_t, train::ValidationRun> runs;
};

train::TimedStep step_of(const formats::TrainingRow& row) {
  train::TimedStep step;
  step.nodes = static_cast<int>(*row.nodes);
  step.replicas = static_cast<int>(*row.replicas);
  step.local_batch = static_cast<int>(*row.local_batch);
  step.time = {*row.step_s, *row.sync_s};
  // "31" means three workers on the first node and one on the second; the digits are the format's.
  if (row.placement) {
    for (const char digit : *row.placement) step.placement.push_back(digit - '0');
  }
  return step;
}

// One epoch of a validation run. Requires that the rows of a run come in the order of its epochs.
void add_validation(const formats::TrainingRow& row, std::map<std::int64_t, train::ValidationRun>& runs) {
  train::ValidationRun& run = runs[*row.batch];
  run.batch = static_cast<int>(*row.batch);
  run.progress.push_back(*row.progress);
  run.iterations.push_back(static_cast<double>(*row.iteration));
  run.gradients.push_back({*row.grad_sqr, *row.grad_var});
}

}  // namespace

Result<train::Applications> training_applications(const std::vector<formats::TrainingRow>& rows) {
  std::map<std::string, Rows> by_name;
  for (const auto& row : rows) {
    Rows& mine = by_name[row.application];
    if (row.kind == formats::TrainingRowKind::validation) {
      add_validation(row, mine.runs);
    } else {
      mine.steps.push_back(step_of(row));
    }
  }
  train::Applications applications;
  for (auto& [name, mine] : by_name) {
    std::vector<train::ValidationRun> runs;
    for (auto& [batch, run] : mine.runs) runs.push_back(std::move(run));
    // The message of an error begins with the name of the application.
    TANGRAM_TRY(auto application, train::Application::make(name, mine.steps, runs));
    applications.emplace(name, std::move(application));
  }
  return applications;
}

std::string JobsOrigin::at(std::size_t job) const {
  return job < lines.size() ? fmt::format("{}:{}", path, lines[job]) : path;
}

Result<Nothing> check_applications(const JobsOrigin& origin, const std::vector<formats::ClusterJob>& jobs,
                                   const train::Applications& applications) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const formats::ClusterJob& job = jobs[i];
    // Inference jobs need no traces: they only hold a GPU for a while.
    if (job.kind != formats::JobKind::training || applications.contains(job.application)) continue;
    return Error{ErrorCode::invalid,
                 fmt::format("{}: the application {} has no traces", origin.at(i), job.application)};
  }
  return Nothing{};
}

Result<Nothing> check_jobs_fit(const JobsOrigin& origin, const std::vector<formats::ClusterJob>& jobs, int gpus) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const formats::ClusterJob& job = jobs[i];
    // An elastic allocator could run it on fewer, but the comparison includes allocators that keep what users ask for.
    if (job.kind == formats::JobKind::training && job.replicas > gpus) {
      return Error{ErrorCode::invalid, fmt::format("{}: the job {} asks for {} GPUs, but the cluster has {}",
                                                   origin.at(i), job.name, job.replicas, gpus)};
    }
    // Training jobs have no duration, so for them only the submission is checked here.
    const double end_s = job.submit_s + job.duration_s.value_or(0);
    if (end_s < kClusterTimeMax_s) continue;
    return Error{ErrorCode::invalid,
                 fmt::format("{}: {} cannot end before second {:.0f}, but at most {:.0f} s are simulated", origin.at(i),
                             job.name, end_s, kClusterTimeMax_s)};
  }
  return Nothing{};
}

}  // namespace tangram::lab

// What a scheduler knows of one elastic training job: the steps that it has timed, the model fitted to them, its
// gradient, and from these the goodput of every size that it might get.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "train/goodput.h"

namespace tangram::train {

// The splits of the batch for each number of workers, shared by all jobs of an application.
class BatchMenu {
 public:
  // For up to `replicas_max` workers.
  BatchMenu(const BatchLimits& limits, int replicas_max);

  const BatchLimits& limits() const { return limits_; }
  // The most workers that some batch can be divided among; at least one.
  int replicas_max() const { return replicas_max_; }
  std::span<const BatchChoice> choices(int replicas) const { return by_replicas_[static_cast<std::size_t>(replicas)]; }

 private:
  BatchLimits limits_;
  int replicas_max_ = 1;
  std::vector<std::vector<BatchChoice>> by_replicas_;
};

// The step times of an application, as far as they are known: points, the model fitted to them, and the throughput that
// it predicts for every split. One for each job, or one for all jobs of an application, which then learn from each
// other.
class StepKnowledge {
 public:
  explicit StepKnowledge(std::shared_ptr<const BatchMenu> menu) : menu_(std::move(menu)) {}

  // A step that was timed before in the same numbers is not fitted again.
  void observe(const ProfilePoint& point, const Gradient& gradient);

  bool known() const { return model_.has_value(); }
  int replicas_seen_max() const { return replicas_seen_max_; }
  const BatchMenu& menu() const { return *menu_; }
  // Of the first step that anyone ran: what a job that has not run yet expects.
  const Gradient& gradient_first() const { return gradient_first_; }
  // Changes whenever predictions do.
  std::uint32_t version() const { return version_; }
  // In samples a second, for each split of the menu. Only when known.
  std::span<const double> throughput(int nodes, int replicas) const;

 private:
  // The predictions for one number of workers, made by the model of one version.
  struct Row {
    std::uint32_t version = 0;  // 0: never made, because the first model is version 1.
    std::vector<double> throughput;
  };
  // Predicts every split of the menu into `row` and stamps it with `version_`. Requires known().
  void fill(Row& row, int nodes, int replicas) const;

  std::shared_ptr<const BatchMenu> menu_;
  std::vector<ProfilePoint> points_;
  std::unordered_set<std::uint64_t> seen_;
  std::optional<StepModel> model_;
  Gradient gradient_first_;
  int replicas_seen_max_ = 0;
  std::uint32_t version_ = 0;
  // A cache of what `model_` predicts, first by whether there are several nodes, then by workers. A row is made when it
  // is first asked for and again after `version_` has moved on, so that const calls write here and nowhere else. A
  // round of an allocator asks for each row hundreds of times between two observations.
  mutable std::vector<Row> rows_[2];
};

class JobModel {
 public:
  explicit JobModel(std::shared_ptr<StepKnowledge> steps) : steps_(std::move(steps)) {}

  // The user fixes the batch size over all workers.
  void fix_batch(int batch) { fixed_batch_ = batch; }
  std::optional<int> fixed_batch() const { return fixed_batch_; }

  // The job ran so.
  void observe(const ProfilePoint& point, const Gradient& gradient);

  bool known() const { return steps_->known(); }
  int replicas_seen_max() const { return steps_->replicas_seen_max(); }
  // More workers than this are of no use to it.
  int replicas_max() const { return steps_->menu().replicas_max(); }
  const BatchLimits& limits() const { return steps_->menu().limits(); }

  // The split that promises most; before anything is known, the smallest batch.
  BatchChoice choose(int nodes, int replicas) const;
  // In samples of the smallest batch a second; 0 where no split fits. Only for known jobs.
  double goodput(int nodes, int replicas) const;

 private:
  // The best split for one number of workers, and the versions of step times and gradient that it was found with.
  struct Best {
    std::uint32_t steps_version = 0;
    std::uint32_t gradient_version = 0;  // 0: never found, because `gradient_version_` begins at 1.
    double goodput = 0;
    std::size_t choice = 0;
  };
  // Looks the best split up in `bests_`, and finds it first if step times or gradient have changed. Requires known().
  const Best& best(int nodes, int replicas) const;

  std::shared_ptr<StepKnowledge> steps_;
  std::optional<int> fixed_batch_;
  std::optional<Gradient> gradient_;    // Of its last step.
  std::uint32_t gradient_version_ = 1;  // Grows with every new gradient.
  // A cache of best splits, first by whether there are several nodes, then by workers. An entry whose versions are not
  // the present ones is stale. Const calls write here and nowhere else; a JobModel is not thread-safe.
  mutable std::vector<Best> bests_[2];
};

}  // namespace tangram::train

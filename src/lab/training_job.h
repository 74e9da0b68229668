// A training job as it really runs in a simulated cluster: true step times, true gradients, progress by epochs.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "train/allocator.h"

namespace tangram::lab {

class TrainingJob {
 public:
  TrainingJob(const train::Application& application, std::shared_ptr<train::StepKnowledge> steps, double submit_s)
      : application_(&application), model_(std::move(steps)), submit_s_(submit_s) {}

  // The user's choice, for allocators that keep it.
  void fix_batch(int batch) { model_.fix_batch(batch); }

  // Lets whole seconds pass with the GPUs that it has. It first restarts, if it still has to; then it learns,
  // `interference` (0 to 1) slower than alone. Returns the seconds that it ran, all of them unless it ended.
  double advance(double seconds, double interference);

  // Seconds until its epoch ends, if nothing changes; infinite without GPUs. No job ends before.
  double until_epoch_s() const;

  // Other GPUs, or none. It pays `restart_s` before it learns again.
  void reallocate(train::Allocation allocation, double restart_s);

  bool done() const { return completed_after_s_.has_value(); }
  // Seconds of its last `advance` until it ended.
  double completed_after_s() const { return *completed_after_s_; }

  const train::Application& application() const { return *application_; }
  const train::JobModel& model() const { return model_; }
  const train::Allocation& allocation() const { return allocation_; }
  int gpus() const { return gpus_; }
  double submit_s() const { return submit_s_; }
  double attained_s() const { return attained_s_; }
  double progress() const { return progress_; }
  double restart_left_s() const { return restart_left_s_; }
  int epoch() const { return epoch_; }
  int restarts() const { return restarts_; }  // The first start is none.
  double progress_left() const { return application_->progress_after(application_->epochs()) - progress_; }
  // What an elastic allocator may give: twice what was tried, so that jobs explore step by step.
  int replicas_max() const;

 private:
  // Chooses the batch for the present GPUs by what has been observed. Requires at least one GPU.
  void choose_batch();
  // Progress a second with the present batch. Requires at least one GPU.
  double rate_of(const train::StepTime& time, const train::Gradient& gradient) const;
  // Learns until `seconds` have passed or the epoch ends, whichever comes first; returns the seconds used. Requires at
  // least one GPU and no restart in progress.
  double learn(double seconds, double interference);

  const train::Application* application_;
  train::JobModel model_;
  double submit_s_;
  train::Allocation allocation_;
  int gpus_ = 0;
  train::StepCurve curve_;
  train::BatchChoice choice_;
  double restart_left_s_ = 0;
  double attained_s_ = 0;
  double progress_ = 0;
  int epoch_ = 0;
  int restarts_ = 0;
  bool started_ = false;
  std::optional<double> completed_after_s_;
};

}  // namespace tangram::lab

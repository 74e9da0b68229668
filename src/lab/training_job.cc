// A training job with true step times and gradients, of which its scheduler sees only what the job has observed.
//
// Progress is counted in steps of the smallest batch (the unit of Pollux): a larger batch makes more progress in each
// iteration, by train::gain, but less than its size suggests. Gradients change from epoch to epoch only, so progress is
// linear within an epoch and the simulation can jump from one epoch to the next.

#include "lab/training_job.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tangram::lab {
namespace {

constexpr int kReplicasMax = 64;  // The largest number that was timed.

}  // namespace

int TrainingJob::replicas_max() const {
  // Three limits: twice what was tried, what was timed, and so many workers that each still has its smallest batch.
  if (application_->runs_alone()) return 1;
  return std::min({std::max(2 * model_.replicas_seen_max(), 1), kReplicasMax,
                   application_->batch_max() / application_->local_batch_min()});
}

void TrainingJob::choose_batch() { choice_ = model_.choose(static_cast<int>(allocation_.size()), gpus_); }

void TrainingJob::reallocate(train::Allocation allocation, double restart_s) {
  allocation_ = std::move(allocation);
  gpus_ = train::gpus_of(allocation_);
  // A job without GPUs pays no pause now; it pays when it gets GPUs again.
  if (gpus_ == 0) return;
  curve_ = application_->curve(train::placement_of(allocation_));
  choose_batch();
  restart_left_s_ = restart_s;
  // The first start is no restart, although it takes the same pause.
  if (started_) ++restarts_;
  started_ = true;
}

double TrainingJob::rate_of(const train::StepTime& time, const train::Gradient& gradient) const {
  // Gradient accumulation: `accumulation` further passes without synchronising, then one step that synchronises.
  const double iteration_s = time.step_s + (time.step_s - time.sync_s) * choice_.accumulation;
  return train::gain(gradient, choice_.total(gpus_), application_->batch_min()) / iteration_s;
}

double TrainingJob::until_epoch_s() const {
  if (gpus_ == 0) return std::numeric_limits<double>::infinity();
  const train::Gradient gradient = application_->gradient(choice_.total(gpus_), epoch_);
  const double rate = rate_of(curve_.at(choice_.local_batch), gradient);
  return restart_left_s_ + std::nearbyint((application_->progress_after(epoch_ + 1) - progress_) / rate);
}

double TrainingJob::learn(double seconds, double interference) {
  const train::StepTime time = curve_.at(choice_.local_batch);
  const train::Gradient gradient = application_->gradient(choice_.total(gpus_), epoch_);
  // What the scheduler knows about this placement comes from here: it never sees the true curve.
  model_.observe({static_cast<int>(allocation_.size()), gpus_, choice_.local_batch, time}, gradient);
  const double rate = rate_of(time, gradient) * (1 - interference);
  const double boundary = application_->progress_after(epoch_ + 1);
  double used = seconds;
  if (progress_ + rate * seconds < boundary) {
    progress_ += rate * seconds;
  } else {
    // Whole seconds, as the rest of the simulated cluster counts.
    used = std::min(std::nearbyint((boundary - progress_) / rate), seconds);
    progress_ = boundary;
    ++epoch_;
  }
  attained_s_ += used * gpus_;
  return used;
}

double TrainingJob::advance(double seconds, double interference) {
  TANGRAM_CHECK(!done(), "a job that has ended does not run");
  if (gpus_ == 0) return seconds;
  const double restarting = std::min(restart_left_s_, seconds);
  restart_left_s_ -= restarting;
  // GPUs are occupied during a restart, too, so it counts as attained service.
  attained_s_ += restarting * gpus_;
  double passed = restarting;
  while (passed < seconds) {
    passed += learn(seconds - passed, interference);
    if (epoch_ >= application_->epochs()) {
      completed_after_s_ = passed;
      return passed;
    }
    choose_batch();
  }
  return seconds;
}

}  // namespace tangram::lab

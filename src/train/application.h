// What was measured of a training application: how long steps take and how its gradients behave.
//
// Steps are timed in placements, that is, with a number of workers on each of some nodes; gradients are looked at once
// an epoch, for several batch sizes. Everything between the measured points is interpolated. This is the truth that a
// simulated cluster runs on; schedulers learn it only by running (see goodput.h).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace tangram::train {

// Workers on each node that has any, in the order of the nodes.
using Placement = std::vector<int>;

int replicas_of(const Placement& placement);

// One step: forward and backward passes, then synchronisation and update.
struct StepTime {
  double step_s = 0;
  double sync_s = 0;  // The part of it that does not overlap with computing.
};

struct TimedStep {
  Placement placement;  // Empty where only the numbers are known.
  int nodes = 1;
  int replicas = 1;
  int local_batch = 1;
  StepTime time;
};

// The gradient's squared norm and variance, both at the initial batch size.
struct Gradient {
  double sqr = 0;
  double var = 0;

  bool operator==(const Gradient&) const = default;
};

// Where training with one batch size stood after each epoch.
struct ValidationRun {
  int batch = 1;
  std::vector<double> progress;    // In iterations of the smallest batch size.
  std::vector<double> iterations;  // Done.
  std::vector<Gradient> gradients;
};

// The times of one placement over local batch sizes, linear in between and constant beyond.
class StepCurve {
 public:
  void add(int local_batch, StepTime time) { points_.push_back({local_batch, time}); }
  // Orders the points and joins those of one size; call it once all are there.
  void finish();
  bool empty() const { return points_.empty(); }
  int local_batch_max() const { return points_.back().local_batch; }
  StepTime at(double local_batch) const;

 private:
  struct Point {
    int local_batch = 1;
    StepTime time;
  };
  std::vector<Point> points_;
};

class Application {
 public:
  // The limits follow from the data. Batches range over those validated. A worker's own batch ranges over those timed;
  // a size counts as possible only if it was timed in every number of workers in which it stays within the largest
  // batch, because what failed was left out of the traces.
  static Result<Application> make(std::string name, std::span<const TimedStep> steps,
                                  std::span<const ValidationRun> runs);

  const std::string& name() const { return name_; }
  int epochs() const { return epochs_; }
  int batch_min() const { return batch_min_; }
  int batch_max() const { return batch_max_; }
  int local_batch_min() const { return local_batch_min_; }
  int local_batch_max() const { return local_batch_max_; }
  // True where one worker can hold the largest batch: such a job gains nothing from a second worker, so schedulers that
  // choose batch sizes run it alone with the largest.
  bool runs_alone() const { return local_batch_max_ >= batch_max_; }

  // How long steps take in `placement`. Its smallest rotation is looked up; a placement that was not timed is
  // interpolated over numbers of nodes, then of workers.
  StepCurve curve(const Placement& placement) const;
  StepTime step_time(const Placement& placement, double local_batch) const { return curve(placement).at(local_batch); }

  // During `epoch`, counted from 0, with `batch` within the validated ones.
  Gradient gradient(double batch, int epoch) const;
  // Progress at which `epoch` epochs are done; 0 for none.
  double progress_after(int epoch) const { return progress_[static_cast<std::size_t>(epoch)]; }
  // Iterations done after `epoch` + 1 epochs with `batch`.
  double iterations(double batch, int epoch) const;

 private:
  // Two validated batch sizes around a batch, and the weight of the second.
  struct Bracket {
    const ValidationRun* low;
    const ValidationRun* high;
    double weight;
  };
  // The validated runs around `batch`; both are the same beyond the ends.
  Bracket bracket(double batch) const;
  // For a placement that was not timed: between numbers of nodes. Requires at least one timed step.
  StepCurve interpolate(int nodes, int replicas) const;
  // Between numbers of workers on exactly `nodes` nodes, which must have been timed.
  StepCurve interpolate_replicas(int nodes, int replicas) const;
  // The largest local batch up to `measured_max` that no group of placements shows to be impossible.
  int find_local_batch_max(int measured_max) const;

  std::string name_;
  int epochs_ = 0;
  int batch_min_ = 1;
  int batch_max_ = 1;
  int local_batch_min_ = 1;
  int local_batch_max_ = 1;
  std::vector<ValidationRun> runs_;                 // Ascending by batch.
  std::vector<double> progress_;                    // After 0, 1, ... epochs.
  std::vector<int> local_batches_;                  // All that were timed, ascending.
  std::map<Placement, StepCurve> placements_;       // By smallest rotation.
  std::map<int, std::map<int, StepCurve>> groups_;  // By nodes, then replicas, over all placements of those numbers.
};

// The applications that a simulation knows.
using Applications = std::map<std::string, Application, std::less<>>;

}  // namespace tangram::train

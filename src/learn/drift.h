// Detects that latencies have moved away from a model.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "learn/fit.h"

namespace tangram::learn {

struct DriftOptions {
  double slack = 0.5;           // Errors of less than this many deviations from the usual are not held against it.
  double threshold = 12;        // Sum of deviations beyond the slack at which it reports a drift.
  double deviation_min = 0.02;  // Of log latency: runs jitter by this much whatever the model believes.
  std::size_t kept_max = 4096;  // Configurations remembered.
};

// Sums up how far the latencies of served batches deviate from the predictions, in both directions (CUSUM). One slow
// batch means little; many batches that are a little slow mean drift.
class DriftDetector {
 public:
  // `model` outlives the detector.
  DriftDetector(const FittedModel& model, DriftOptions options) : model_(&model), options_(options) {}

  // Takes in one served batch. True only for the batch at which the drift becomes certain.
  bool observe(const RunPoint& point, double latency_ms);

  bool drifted() const { return drifted_; }
  // Median of real over predicted latency since the drift began to show, 1 where nothing was observed.
  double ratio() const;

  // The measurements to refit from: configurations that were served since the drift began have their new mean, and all
  // others of the same target are scaled by ratio().
  Measurements refreshed() const;
  // The runs of the model that are assumed from another device type, which no measurement renews: their speeds follow
  // ratio() where they were served.
  std::vector<FittedRun> assumed_runs() const;
  // Forgets what was observed, for the refitted model.
  void restart(const FittedModel& model);

 private:
  struct Served {
    double log_sum = 0;
    std::uint64_t count = 0;
  };
  using Key = std::pair<Target, Candidate>;

  const FittedModel* model_;
  DriftOptions options_;
  double slow_ = 0;
  double fast_ = 0;
  bool drifted_ = false;
  std::map<Key, Served> served_;  // Since the sums were last zero.
};

// A model fitted to what the detector has seen.
Result<FittedModel> refit(const DriftDetector& detector, const Knowledge& knowledge, const FitOptions& options);

}  // namespace tangram::learn

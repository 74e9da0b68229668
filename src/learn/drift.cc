// A two-sided CUSUM test (Page, 1954) on the prediction errors of served batches, and the refit data when it fires.
//
// Each error, in predicted deviations and less a slack, is added to a sum that never falls below 0. Errors of chance
// keep the sum near 0; a lasting shift makes it grow by the same amount with every batch until it reaches the
// threshold.
//
// Invariant: served_ holds only batches since both sums were last 0, so it describes the drift and not the time before
// it.

#include "learn/drift.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "learn/statistics.h"

namespace tangram::learn {
namespace {

// The deviation of log latency that the interval of an estimate was made from.
double deviation_of(const Estimate& estimate, const FittedRun& run) {
  return math::log(estimate.high_ms / estimate.mean_ms) / run.interval_deviations;
}

}  // namespace

bool DriftDetector::observe(const RunPoint& point, double latency_ms) {
  const FittedRun* run = model_->find(point.device, point.model);
  if (run == nullptr || !(latency_ms > 0)) return false;
  const Candidate candidate{std::string(point.mig_profile), point.batch, point.size, point.processes};
  const auto estimate = run->estimate(candidate);
  if (!estimate) return false;
  const double log_ratio = math::log(latency_ms / estimate->mean_ms);
  const double away = log_ratio / std::max(deviation_of(*estimate, *run), options_.deviation_min);
  // One batch counts for at most two deviations beyond the slack, so that a single slow batch does not fire the test.
  slow_ = std::max(0.0, slow_ + std::min(away, options_.slack + 2) - options_.slack);
  fast_ = std::max(0.0, fast_ + std::min(-away, options_.slack + 2) - options_.slack);
  if (slow_ == 0 && fast_ == 0) {  // As usual: what came before is no part of a drift that begins later.
    served_.clear();
    return false;
  }
  const Key key{{std::string(point.device), std::string(point.model)}, candidate};
  // Bounded memory: after kept_max configurations only those already there are updated.
  if (served_.size() < options_.kept_max || served_.contains(key)) {
    Served& served = served_[key];
    served.log_sum += math::log(latency_ms);
    ++served.count;
  }
  const bool before = drifted_;
  // Once it has fired it stays so until restart(); only the first time is reported.
  drifted_ = drifted_ || std::max(slow_, fast_) >= options_.threshold;
  return drifted_ && !before;
}

// The median over configurations: a busy configuration counts no more than a rare one.
double DriftDetector::ratio() const {
  std::vector<double> ratios;
  for (const auto& [key, served] : served_) {
    const auto estimate = model_->estimate(point_of(key.first, key.second));
    if (!estimate) continue;
    ratios.push_back(served.log_sum / static_cast<double>(served.count) - math::log(estimate->mean_ms));
  }
  return ratios.empty() ? 1 : math::exp(quantile(std::move(ratios), 0.5));
}

// The old measurements moved to the new speed. A configuration that was served since the drift takes its mean; the
// others of that target are scaled by the common ratio. Other targets stay.
Measurements DriftDetector::refreshed() const {
  Measurements result;
  const double moved = ratio();
  std::map<Key, Served> unused = served_;
  const auto served_target = [&](const Target& target) {
    return std::ranges::any_of(served_, [&](const auto& entry) { return entry.first.first == target; });
  };
  for (const auto& run : model_->runs()) {
    if (run.assumed) continue;
    const bool moves = served_target({run.device, run.model});
    for (Measurement m : run.measured) {
      const auto found = unused.find({target_of(m), candidate_of(m)});
      if (m.latency_ms && moves) {
        m.latency_ms = *m.latency_ms * moved;
        // It no longer follows from the latency.
        m.throughput_per_s.reset();
      }
      if (found != unused.end()) {
        m.latency_ms = math::exp(found->second.log_sum / static_cast<double>(found->second.count));
        unused.erase(found);
      }
      result.push_back(std::move(m));
    }
  }
  // Configurations that were served but never measured are new points.
  for (const auto& [key, served] : unused) {
    const FittedRun* run = model_->find(key.first.device, key.first.model);
    if (run != nullptr && run->assumed) continue;
    Measurement m;
    m.device = key.first.device;
    m.model = key.first.model;
    m.mig_profile = key.second.mig_profile;
    m.batch = key.second.batch;
    m.size = key.second.size;
    m.processes = key.second.processes;
    m.latency_ms = math::exp(served.log_sum / static_cast<double>(served.count));
    result.push_back(std::move(m));
  }
  return result;
}

std::vector<FittedRun> DriftDetector::assumed_runs() const {
  std::vector<FittedRun> runs;
  for (const auto& run : model_->runs()) {
    if (!run.assumed) continue;
    runs.push_back(run);
    const Target target{run.device, run.model};
    if (std::ranges::any_of(served_, [&](const auto& entry) { return entry.first.first == target; })) {
      runs.back().assumed->speed /= ratio();
    }
  }
  return runs;
}

void DriftDetector::restart(const FittedModel& model) {
  model_ = &model;
  slow_ = fast_ = 0;
  drifted_ = false;
  served_.clear();
}

Result<FittedModel> refit(const DriftDetector& detector, const Knowledge& knowledge, const FitOptions& options) {
  TANGRAM_TRY(auto fitted, fit(detector.refreshed(), knowledge, options));
  std::vector<FittedRun> runs = fitted.runs();
  for (auto& run : detector.assumed_runs()) runs.push_back(std::move(run));
  return FittedModel(std::move(runs));
}

}  // namespace tangram::learn

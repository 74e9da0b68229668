// Run times as measured, against run times as predicted.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sched/deployment.h"
#include "sched/sample_class.h"

namespace tangram::sched {

// One correction of a run time, in terms that hold beyond a deployment: what a system remembers across a restart.
struct CorrectionMemory {
  std::string kind;  // Of the slices.
  ServiceId service;
  std::int64_t edge = 0;  // Of the bucket.
  std::uint32_t samples_class = 0;
  std::int64_t factor_ppb = 0;  // In billionths: whole numbers are the same in every file and recording.
  std::int64_t spread_ppb = 0;  // Negative: not known.

  bool operator==(const CorrectionMemory&) const = default;
};

// Where a correction is in the deployment in force.
struct CorrectionPlace {
  std::size_t row = 0;
  std::size_t bucket = 0;
  std::uint32_t samples_class = 0;
};

// Smoothed corrections of the predictions: the factor between the measured and the predicted mean run time, and how far
// run times spread. One pair for each row (a service on a pool), bucket and class of batch sizes.
class Corrections {
 public:
  // The share of the newest measurement in the factor; zero switches corrections off.
  explicit Corrections(double weight) : weight_(weight) {}

  // Replaces the rows by those of `deployment`. Kinds of slices, services and buckets that it still has keep their
  // corrections.
  void resize(const Deployment& deployment);
  double factor(std::size_t row, std::size_t bucket, std::int32_t samples) const {
    return weight_ == 0 ? 1.0 : cells_[at(row, bucket, samples)].factor;
  }
  // How far the p99 lies above the mean, as a share of it; negative: nothing was measured.
  double spread(std::size_t row, std::size_t bucket, std::int32_t samples) const {
    return weight_ == 0 ? -1.0 : cells_[at(row, bucket, samples)].spread;
  }
  // A batch ended. `ratio`: its run time over the predicted mean; `spread`: the predicted spread.
  //
  // Of a normal distribution the p99 lies 2.33 and the mean distance 0.80 standard deviations from the mean. A spread
  // needs more measurements than a mean, so it moves at a quarter of the weight.
  void learn(std::size_t row, std::size_t bucket, std::int32_t samples, double ratio, double spread) {
    if (weight_ == 0) return;
    Cell& cell = cells_[at(row, bucket, samples)];
    ratio = std::min(ratio, kOutlier * cell.factor);
    if (cell.spread < 0) cell.spread = spread;
    const double distance = std::abs(ratio / cell.factor - 1);
    cell.spread += weight_ / 4 * (2.33 / 0.80 * distance - cell.spread);
    cell.factor += weight_ * (ratio - cell.factor);
  }
  // Moves one step back towards the prediction, whose spread is `spread`. Used when a too large correction makes
  // admission reject every request, so that nothing would be measured again.
  void doubt(std::size_t row, std::size_t bucket, std::int32_t samples, double spread);
  bool on() const { return weight_ != 0; }

  // What was measured so far, in the order of the rows.
  std::vector<CorrectionMemory> memory() const;
  // Where a remembered correction belongs now; nothing if the deployment has no such slices, service or bucket.
  std::optional<CorrectionPlace> find(const CorrectionMemory& remembered) const;
  // Sets one; false, and nothing happens, if there is no such place or the numbers make no sense.
  bool set(const CorrectionPlace& place, std::int64_t factor_ppb, std::int64_t spread_ppb);

 private:
  // A run longer than this many times its expectation counts as this many: the machine or a process stalled.
  static constexpr double kOutlier = 10;

  struct Cell {
    double factor = 1;
    double spread = -1;
  };
  // Where the cells of a row begin, and how many it has for each bucket.
  struct Extent {
    std::size_t begin = 0;
    std::size_t classes = 0;
  };
  // What a row is about, whatever its number.
  struct Row {
    std::string kind;
    ServiceId service;
    std::vector<std::int64_t> edges;
    Extent cells;
  };

  std::size_t at(std::size_t row, std::size_t bucket, std::int32_t samples) const {
    return extents_[row].begin + bucket * extents_[row].classes + sample_class(samples);
  }
  void keep(const Row& before, const std::vector<Cell>& cells, const Row& row);

  double weight_;
  std::vector<Row> rows_;        // By PoolService, in order of pools.
  std::vector<Extent> extents_;  // Of the rows, side by side: every prediction looks here.
  std::vector<Cell> cells_;
};

}  // namespace tangram::sched

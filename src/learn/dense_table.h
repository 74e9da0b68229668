// A fitted model compiled for the hot path.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/latency_model.h"

namespace tangram::learn {

// What is compiled: every batch from 1 to batch_max for each padded size, on one slice shape with a fixed number of
// processes.
struct DenseTableShape {
  std::string device;
  std::string mig_profile;
  std::string model;
  std::vector<std::int64_t> sizes;  // Ascending, at least one.
  std::int64_t batch_max = 1;
  std::int64_t processes = 1;
};

// One prediction is one load: a few nanoseconds. Where the model has none, the mean is Duration::max(). More work never
// takes less time and never fits better: where the model says so, the larger batch or size is charged as the smaller.
class DenseTable {
 public:
  DenseTable(const LatencyModel& model, DenseTableShape shape);

  // `size_index` counts in shape().sizes, 1 <= batch <= batch_max.
  const Prediction& at(std::size_t size_index, std::int64_t batch) const {
    return cells_[size_index * batches_ + static_cast<std::size_t>(batch - 1)];
  }
  bool fits(std::size_t size_index, std::int64_t batch) const { return at(size_index, batch).mean != Duration::max(); }
  // The largest batch that fits, 0 if none does.
  std::int64_t batch_limit(std::size_t size_index) const;
  const DenseTableShape& shape() const { return shape_; }

 private:
  // Ensures that no cell is faster than a cell with a smaller batch or size. Requires all cells.
  void make_monotone();

  DenseTableShape shape_;
  std::size_t batches_;
  std::vector<Prediction> cells_;
};

}  // namespace tangram::learn

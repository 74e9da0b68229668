// Predictions straight from measurements.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/latency_model.h"
#include "core/measurement.h"
#include "learn/loading.h"

namespace tangram::learn {

// Exact where a point was measured, linear between measured batches and between measured sizes. It does not reach
// beyond: a batch larger than the largest measured one, or a size beyond the largest, has no prediction; a smaller one
// is charged the smallest. A batch at which memory ran out ends the range for its size.
class TableModel final : public LatencyModel {
 public:
  explicit TableModel(const Measurements& measurements);
  std::optional<Prediction> predict(const RunPoint& point) const override;
  // The column weights_mib, or else the smallest peak that was measured.
  std::optional<double> weights_mib(std::string_view device, std::string_view mig_profile,
                                    std::string_view model) const override;
  std::optional<Duration> load_time(std::string_view device, std::string_view mig_profile,
                                    std::string_view model) const override;

 private:
  struct Row {
    std::int64_t batch = 1;
    double mean_ms = 0;
    double p99_ms = 0;
    std::optional<double> memory_mib;
  };
  using BySize = std::map<std::int64_t, std::vector<Row>>;  // Ascending batches.

  // The row at `share` of the way from `low` to `high`; memory only if both state it.
  static Row between(const Row& low, const Row& high, std::int64_t batch, double share);
  // Interpolates over batches. Requires ascending rows; nullopt above the largest batch.
  static std::optional<Row> at_batch(const std::vector<Row>& rows, std::int64_t batch);

  LoadingTable loading_;
  std::map<std::string, BySize, std::less<>> runs_;  // By device, profile, model and processes.
};

}  // namespace tangram::learn

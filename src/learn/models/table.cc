// Interpolation in a table of measurements: first over batches at the two nearest sizes, then between the sizes. A
// batch below the smallest measured one is charged as the smallest. Latency does not fall with the batch, so that is an
// upper bound. Nothing is extrapolated upwards, because a larger batch may not fit into memory.

#include "learn/models/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace tangram::learn {
namespace {

// The p99 of a normal spread lies this many standard deviations above the mean.
constexpr double kP99Deviations = 2.326;

std::string key_of(std::string_view device, std::string_view profile, std::string_view model, std::int64_t processes) {
  return fmt::format("{}/{}/{}/{}", device, profile, model, processes);
}

double between_numbers(double low, double high, double share) { return low + (high - low) * share; }

}  // namespace

TableModel::TableModel(const Measurements& measurements) : loading_(measurements) {
  for (const auto& m : measurements) {
    if (m.out_of_memory()) continue;
    const double mean = *m.latency_ms;
    const double p99 = mean + kP99Deviations * m.latency_spread_ms.value_or(0);
    runs_[key_of(m.device, m.mig_profile, m.model, m.processes)][m.size].push_back({m.batch, mean, p99, m.memory_mib});
  }
  // A second pass, because a failure also removes larger batches that come later in the file. A larger batch that is
  // said to have fitted contradicts the failure, and the cautious reading wins.
  for (const auto& m : measurements) {
    if (!m.out_of_memory()) continue;
    const auto run = runs_.find(key_of(m.device, m.mig_profile, m.model, m.processes));
    if (run == runs_.end()) continue;
    const auto rows = run->second.find(m.size);
    if (rows != run->second.end()) std::erase_if(rows->second, [&](const Row& row) { return row.batch >= m.batch; });
  }
  for (auto& [key, by_size] : runs_) {
    for (auto& [size, rows] : by_size) std::ranges::sort(rows, {}, &Row::batch);
    std::erase_if(by_size, [](const auto& entry) { return entry.second.empty(); });
  }
}

TableModel::Row TableModel::between(const Row& low, const Row& high, std::int64_t batch, double share) {
  Row row{
      batch, between_numbers(low.mean_ms, high.mean_ms, share), between_numbers(low.p99_ms, high.p99_ms, share), {}};
  if (low.memory_mib && high.memory_mib) row.memory_mib = between_numbers(*low.memory_mib, *high.memory_mib, share);
  return row;
}

std::optional<TableModel::Row> TableModel::at_batch(const std::vector<Row>& rows, std::int64_t batch) {
  const auto above = std::ranges::lower_bound(rows, batch, {}, &Row::batch);
  // Larger than any batch that was measured.
  if (above == rows.end()) return std::nullopt;
  if (above->batch == batch || above == rows.begin()) {
    return Row{batch, above->mean_ms, above->p99_ms, above->memory_mib};
  }
  const auto below = std::prev(above);
  const double share = static_cast<double>(batch - below->batch) / static_cast<double>(above->batch - below->batch);
  return between(*below, *above, batch, share);
}

std::optional<Prediction> TableModel::predict(const RunPoint& point) const {
  const auto run = runs_.find(key_of(point.device, point.mig_profile, point.model, point.processes));
  if (run == runs_.end()) return std::nullopt;
  const BySize& sizes = run->second;
  const auto above = sizes.lower_bound(point.size);
  if (above == sizes.end()) return std::nullopt;
  auto row = at_batch(above->second, point.batch);
  if (row && above->first != point.size && above != sizes.begin()) {
    const auto below = std::prev(above);
    // The smaller size may not have been measured up to this batch. The larger size alone is then an upper bound.
    if (const auto low = at_batch(below->second, point.batch)) {
      const double share =
          static_cast<double>(point.size - below->first) / static_cast<double>(above->first - below->first);
      row = between(*low, *row, point.batch, share);
    }
  }
  if (!row) return std::nullopt;
  return Prediction{from_milliseconds(row->mean_ms), from_milliseconds(row->p99_ms), row->memory_mib};
}

std::optional<double> TableModel::weights_mib(std::string_view device, std::string_view mig_profile,
                                              std::string_view model) const {
  const auto column = loading_.weights_mib(device, mig_profile, model);
  return column ? column : loading_.memory_least_mib(device, model);
}

std::optional<Duration> TableModel::load_time(std::string_view device, std::string_view mig_profile,
                                              std::string_view model) const {
  return loading_.load_time(device, mig_profile, model);
}

}  // namespace tangram::learn

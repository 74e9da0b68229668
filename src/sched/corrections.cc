// Factors by which measured run times differ from predicted ones, per pool and service, bucket and class of samples.
#include "sched/corrections.h"

#include <algorithm>

namespace tangram::sched {

// Learned factors survive a new plan where kind, service and bucket edge are the same: the hardware has not changed.
void Corrections::resize(const Deployment& deployment) {
  const std::vector<Row> rows_before = std::move(rows_);
  const std::vector<Cell> cells_before = std::move(cells_);
  rows_.clear();
  extents_.clear();
  std::size_t total = 0;
  for (const auto& pool : deployment.pools) {
    for (const auto& entry : pool.services) {
      const std::size_t classes = sample_class_count(std::max(1, entry.latency.samples_max()));
      rows_.push_back({pool.kind, entry.service, deployment.services[entry.service.index()].edges, {total, classes}});
      extents_.push_back({total, classes});
      total += entry.batch_max.size() * classes;
    }
  }
  cells_.assign(total, {});
  for (const Row& row : rows_) {
    const auto same = std::ranges::find_if(
        rows_before, [&](const Row& before) { return before.kind == row.kind && before.service == row.service; });
    if (same != rows_before.end()) keep(*same, cells_before, row);
  }
}

void Corrections::keep(const Row& before, const std::vector<Cell>& cells, const Row& row) {
  for (std::size_t b = 0; b < row.edges.size(); ++b) {
    const auto same = std::ranges::find(before.edges, row.edges[b]);
    // A new bucket starts without a correction.
    if (same == before.edges.end()) continue;
    const auto from = static_cast<std::size_t>(same - before.edges.begin());
    for (std::size_t c = 0; c < std::min(before.cells.classes, row.cells.classes); ++c) {
      cells_[row.cells.begin + b * row.cells.classes + c] = cells[before.cells.begin + from * before.cells.classes + c];
    }
  }
}

namespace {

constexpr double kPpb = 1e9;
// Beyond this factor nothing was ever learned: kOutlier limits each step.
constexpr std::int64_t kFactorPpbMax = 1'000'000'000'000;

}  // namespace

std::vector<CorrectionMemory> Corrections::memory() const {
  std::vector<CorrectionMemory> memory;
  for (const Row& row : rows_) {
    for (std::size_t b = 0; b < row.edges.size(); ++b) {
      for (std::uint32_t c = 0; c < row.cells.classes; ++c) {
        const Cell& cell = cells_[row.cells.begin + b * row.cells.classes + c];
        if (cell.spread < 0) continue;  // Nothing was measured.
        memory.push_back({row.kind, row.service, row.edges[b], c, std::llround(cell.factor * kPpb),
                          std::llround(cell.spread * kPpb)});
      }
    }
  }
  return memory;
}

std::optional<CorrectionPlace> Corrections::find(const CorrectionMemory& remembered) const {
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const Row& row = rows_[r];
    if (row.kind != remembered.kind || row.service != remembered.service) continue;
    const auto edge = std::ranges::find(row.edges, remembered.edge);
    if (edge == row.edges.end() || remembered.samples_class >= row.cells.classes) continue;
    return CorrectionPlace{r, static_cast<std::size_t>(edge - row.edges.begin()), remembered.samples_class};
  }
  return std::nullopt;
}

bool Corrections::set(const CorrectionPlace& place, std::int64_t factor_ppb, std::int64_t spread_ppb) {
  if (place.row >= rows_.size() || place.bucket >= rows_[place.row].edges.size() ||
      place.samples_class >= rows_[place.row].cells.classes) {
    return false;
  }
  if (factor_ppb <= 0 || factor_ppb > kFactorPpbMax || spread_ppb < 0 || spread_ppb > kFactorPpbMax) return false;
  const Extent& cells = rows_[place.row].cells;
  cells_[cells.begin + place.bucket * cells.classes + place.samples_class] = {static_cast<double>(factor_ppb) / kPpb,
                                                                              static_cast<double>(spread_ppb) / kPpb};
  return true;
}

// Moves a factor above 1 back towards the prediction. Factors below 1 block nothing and stay.
void Corrections::doubt(std::size_t row, std::size_t bucket, std::int32_t samples, double spread) {
  if (weight_ == 0) return;
  Cell& cell = cells_[at(row, bucket, samples)];
  if (cell.factor > 1) cell.factor += weight_ * (1 - cell.factor);
  if (cell.spread > spread) cell.spread += weight_ * (spread - cell.spread);
}

}  // namespace tangram::sched

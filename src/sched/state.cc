#include "sched/state.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tangram::sched {
namespace {

// How many classes of sample counts a table of this width has.
std::size_t class_count(std::int32_t samples_max) { return sample_class(samples_max) + 1; }

}  // namespace

void RequestStore::add_block() {
  blocks_.push_back(std::make_unique<Waiting[]>(kBlock));
  for (std::size_t i = 0; i < kBlock; ++i) {
    blocks_.back()[i].next = free_;
    free_ = &blocks_.back()[i];
  }
}

void Corrections::resize(const Deployment& deployment) {
  const std::vector<Row> rows_before = std::move(rows_);
  const std::vector<Cell> cells_before = std::move(cells_);
  rows_.clear();
  extents_.clear();
  std::size_t total = 0;
  for (const auto& pool : deployment.pools) {
    for (const auto& entry : pool.services) {
      const std::size_t classes = class_count(std::max(1, entry.latency.samples_max()));
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
    if (same == before.edges.end()) continue;
    const auto from = static_cast<std::size_t>(same - before.edges.begin());
    for (std::size_t c = 0; c < std::min(before.cells.classes, row.cells.classes); ++c) {
      cells_[row.cells.begin + b * row.cells.classes + c] = cells[before.cells.begin + from * before.cells.classes + c];
    }
  }
}

void Corrections::doubt(std::size_t row, std::size_t bucket, std::int32_t samples, double spread) {
  if (weight_ == 0) return;
  Cell& cell = cells_[at(row, bucket, samples)];
  if (cell.factor > 1) cell.factor += weight_ * (1 - cell.factor);
  if (cell.spread > spread) cell.spread += weight_ * (spread - cell.spread);
}

State::State(Deployment d, std::size_t requests_max, double correction_weight)
    : deployment(std::move(d)), store(requests_max), corrections(correction_weight) {
  for (const auto& place : deployment.places) {
    SliceState slice;
    slice.place = place;
    slices.push_back(std::move(slice));
  }
  build();
}

void State::build() {
  heap_positions.assign(slices.size(), 0);
  pools.clear();
  first_row.clear();
  std::size_t rows = 0;
  for (const auto& pool : deployment.pools) {
    pools.emplace_back(&heap_positions);
    first_row.push_back(rows);
    rows += pool.services.size();
  }
  corrections.resize(deployment);

  services.clear();
  lanes.clear();
  for (std::size_t s = 0; s < deployment.services.size(); ++s) {
    const DeployedService& service = deployment.services[s];
    ServiceState state;
    state.lanes_begin = static_cast<std::uint32_t>(lanes.size());
    state.classes = static_cast<std::uint32_t>(class_count(service.samples_max));
    const ServiceId id(static_cast<std::uint32_t>(s));
    for (std::uint32_t bucket = 0; bucket < service.edges.size(); ++bucket) {
      for (std::uint32_t c = 0; c < state.classes; ++c) lanes.push_back({id, bucket, false, {}, kTimeNever, {}});
    }
    const auto last_bucket = static_cast<std::uint32_t>(std::max<std::size_t>(1, service.edges.size()) - 1);
    lanes.push_back({id, last_bucket, true, {}, kTimeNever, {}});
    state.occupied.assign((lanes.size() - state.lanes_begin + 63) / 64, 0);
    state.drain_ns.assign(service.edges.size(), 0);
    services.push_back(std::move(state));
  }
  std::vector<std::uint32_t> serving;
  for (std::uint32_t i = 0; i < slices.size(); ++i) {
    if (serves(slices[i])) serving.push_back(i);
  }
  // Lists of idle slices begin with the one that has been idle longest.
  std::ranges::stable_sort(serving, {}, [&](std::uint32_t i) { return slices[i].idle_since; });
  for (const std::uint32_t i : serving) {
    pools[slices[i].place.pool.index()].by_free_time.insert(SliceId(i), slices[i].free_at.time_since_epoch().count());
    slices[i].listed = SliceListKind::none;
    file(SliceId(i));
  }
  count_capacity();
}

void State::count_capacity() {
  for (auto& pool : pools) pool.present = 0;
  for (const auto& slice : slices) {
    if (slice.status != SliceStatus::gone && !slice.retiring) ++pools[slice.place.pool.index()].present;
  }
  for (auto& state : services) {
    state.slices = 0;
    std::ranges::fill(state.drain_ns, 0.0);
  }
  for (std::size_t p = 0; p < deployment.pools.size(); ++p) {
    const auto count = static_cast<double>(pools[p].by_free_time.size());
    for (const auto& entry : deployment.pools[p].services) {
      ServiceState& state = services[entry.service.index()];
      state.slices += static_cast<std::uint32_t>(count);
      for (std::size_t b = 0; b < entry.batch_max.size(); ++b) {
        if (entry.batch_max[b] == 0) continue;
        // Rates add up; the sum is turned into a time below.
        state.drain_ns[b] +=
            count * entry.batch_max[b] / static_cast<double>(entry.latency.mean_ns(b, entry.batch_max[b]));
      }
    }
  }
  for (auto& state : services) {
    for (double& drain : state.drain_ns) drain = drain > 0 ? 1 / drain : 0;
    state.backlog_ns = 0;
  }
  for (const auto& lane : lanes) {
    if (lane.late) continue;
    ServiceState& service = services[lane.service.index()];
    for (const Waiting* w = lane.queue.front(); w != nullptr; w = w->next) service.backlog_ns += service.backlog_of(*w);
  }
}

void State::file(SliceId id) {
  SliceState& slice = slices[id.index()];
  SliceListKind wanted = SliceListKind::none;
  if (slice.status == SliceStatus::idle && !slice.retiring) wanted = SliceListKind::idle;
  if (slice.status == SliceStatus::busy && !slice.retiring && !slice.bound.empty()) wanted = SliceListKind::backed_up;
  if (wanted == slice.listed) return;
  if (SliceList* list = list_of(slice)) {
    (slice.list_previous == SliceState::kNone ? list->first : slices[slice.list_previous].list_next) = slice.list_next;
    (slice.list_next == SliceState::kNone ? list->last : slices[slice.list_next].list_previous) = slice.list_previous;
    --list->count;
  }
  slice.listed = wanted;
  slice.list_previous = slice.list_next = SliceState::kNone;
  if (SliceList* list = list_of(slice)) {
    slice.list_previous = list->last;
    (list->last == SliceState::kNone ? list->first : slices[list->last].list_next) = id.value();
    list->last = id.value();
    ++list->count;
  }
}

}  // namespace tangram::sched

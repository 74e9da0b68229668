#include "sched/state.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tangram::sched {
namespace {

bool goes_before(const Waiting& a, const Waiting& b) {
  if (a.request.priority != b.request.priority) return a.request.priority > b.request.priority;
  if (a.request.deadline != b.request.deadline) return a.request.deadline < b.request.deadline;
  return a.request.id < b.request.id;
}

// How many classes of sample counts a table of this width has.
std::size_t class_count(std::int32_t samples_max) { return sample_class(samples_max) + 1; }

}  // namespace

void RequestQueue::insert(Waiting* waiting) {
  Waiting* before = tail_;
  while (before != nullptr && goes_before(*waiting, *before)) before = before->previous;
  waiting->previous = before;
  waiting->next = before == nullptr ? head_ : before->next;
  (before == nullptr ? head_ : before->next) = waiting;
  (waiting->next == nullptr ? tail_ : waiting->next->previous) = waiting;
  ++count_;
  samples_ += waiting->request.samples;
}

void RequestQueue::append(Waiting* waiting) {
  waiting->previous = tail_;
  waiting->next = nullptr;
  (tail_ == nullptr ? head_ : tail_->next) = waiting;
  tail_ = waiting;
  ++count_;
  samples_ += waiting->request.samples;
}

void RequestQueue::erase(Waiting* waiting) {
  (waiting->previous == nullptr ? head_ : waiting->previous->next) = waiting->next;
  (waiting->next == nullptr ? tail_ : waiting->next->previous) = waiting->previous;
  waiting->next = waiting->previous = nullptr;
  --count_;
  samples_ -= waiting->request.samples;
}

Waiting* RequestStore::take(const Request& request, std::uint32_t bucket) {
  TANGRAM_CHECK(!full(), "the caller asks before it takes");
  if (free_ == nullptr) {
    blocks_.push_back(std::make_unique<Waiting[]>(kBlock));
    for (std::size_t i = 0; i < kBlock; ++i) {
      blocks_.back()[i].next = free_;
      free_ = &blocks_.back()[i];
    }
  }
  Waiting* taken = free_;
  free_ = taken->next;
  *taken = {.request = request, .bucket = bucket};
  ++used_;
  return taken;
}

void RequestStore::give_back(Waiting* waiting) {
  waiting->next = free_;
  free_ = waiting;
  --used_;
}

void Corrections::resize(const Deployment& deployment) {
  const std::vector<Row> rows_before = std::move(rows_);
  const std::vector<Cell> cells_before = std::move(cells_);
  rows_.clear();
  begins_.clear();
  std::size_t total = 0;
  for (const auto& pool : deployment.pools) {
    for (const auto& entry : pool.services) {
      const std::size_t classes = class_count(std::max(1, entry.latency.samples_max()));
      rows_.push_back({pool.kind, entry.service, deployment.services[entry.service.index()].edges, total, classes});
      begins_.push_back(total);
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
    for (std::size_t c = 0; c < std::min(before.classes, row.classes); ++c) {
      cells_[row.begin + b * row.classes + c] = cells[before.begin + from * before.classes + c];
    }
  }
}

void Corrections::doubt(std::size_t row, std::size_t bucket, std::int32_t samples, double spread) {
  if (weight_ == 0) return;
  Cell& cell = cells_[at(row, bucket, samples)];
  if (cell.factor > 1) cell.factor += weight_ * (1 - cell.factor);
  if (cell.spread > spread) cell.spread += weight_ * (spread - cell.spread);
}

// Of a normal distribution the p99 lies 2.33 and the mean distance 0.80 standard deviations from the mean. A spread
// needs more measurements than a mean, so it moves at a quarter of the weight.
void Corrections::learn(std::size_t row, std::size_t bucket, std::int32_t samples, double ratio, double spread) {
  if (weight_ == 0) return;
  Cell& cell = cells_[at(row, bucket, samples)];
  ratio = std::min(ratio, kOutlier * cell.factor);
  if (cell.spread < 0) cell.spread = spread;
  const double distance = std::abs(ratio / cell.factor - 1);
  cell.spread += weight_ / 4 * (2.33 / 0.80 * distance - cell.spread);
  cell.factor += weight_ * (ratio - cell.factor);
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

void State::lane_insert(LaneId id, Waiting* waiting) {
  Lane& lane = lanes[id.index()];
  ServiceState& service = services[lane.service.index()];
  lane.queue.insert(waiting);
  const std::uint32_t bit = id.value() - service.lanes_begin;
  service.occupied[bit / 64] |= std::uint64_t{1} << (bit % 64);
  if (!lane.late) service.backlog_ns += service.backlog_of(*waiting);
}

void State::lane_erase(LaneId id, Waiting* waiting) {
  Lane& lane = lanes[id.index()];
  ServiceState& service = services[lane.service.index()];
  lane.queue.erase(waiting);
  if (lane.queue.empty()) {
    const std::uint32_t bit = id.value() - service.lanes_begin;
    service.occupied[bit / 64] &= ~(std::uint64_t{1} << (bit % 64));
    lane.hold = kTimeNever;
  }
  if (!lane.late) service.backlog_ns -= service.backlog_of(*waiting);
}

}  // namespace tangram::sched

// The slices with their heap (by free time) and lists (idle, backed up) per pool.
//
// Every change of a slice's status or queue passes through this table, which refiles the slice at once. So policies
// find the first free or idle slice of a pool in constant time.
#include "sched/slice_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace tangram::sched {
namespace {

// Counted in `present` of its pool.
bool is_present(const SliceState& slice) { return slice.status != SliceStatus::gone && !slice.retiring; }

// The status changes that go_away() permits.
bool may_go(SliceStatus from, SliceStatus to) {
  const bool here = from == SliceStatus::idle || from == SliceStatus::busy;
  switch (to) {
    case SliceStatus::restarting: return here || from == SliceStatus::recalling;
    case SliceStatus::lent: return from == SliceStatus::idle;
    case SliceStatus::recalling: return from == SliceStatus::lent;
    default: return false;
  }
}

}  // namespace

// ---- Plans ----

void SliceTable::reset(std::span<const Place> places, std::size_t pool_count) {
  slices_.clear();
  slices_.resize(places.size());
  rebuild(places, pool_count);
}

// Pools are built from nothing rather than changed: plans are rare, and what a slice's pool was called in the old plan
// is meaningless in the new one.
void SliceTable::rebuild(std::span<const Place> places, std::size_t pool_count) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i == slices_.size()) {
      slices_.emplace_back();
      slices_.back().status = SliceStatus::planned;
    }
    slices_[i].place = places[i];
    slices_[i].listed = SliceListKind::none;
    slices_[i].list_next = slices_[i].list_previous = SliceState::kNone;
  }
  heap_positions_.assign(slices_.size(), 0);
  pools_.clear();
  for (std::size_t p = 0; p < pool_count; ++p) pools_.emplace_back(&heap_positions_);
  std::vector<std::uint32_t> serving;
  for (std::uint32_t i = 0; i < slices_.size(); ++i) {
    if (is_present(slices_[i])) ++pool_of(slices_[i]).present;
    if (serves(slices_[i])) serving.push_back(i);
  }
  // Lists of idle slices begin with the one that has been idle longest.
  std::ranges::stable_sort(serving, {}, [&](std::uint32_t i) { return slices_[i].idle_since; });
  for (const std::uint32_t i : serving) {
    SliceState& slice = slices_[i];
    pool_of(slice).by_free_time.insert(SliceId(i), slice.free_at.time_since_epoch().count());
    file(SliceId(i), slice);
  }
}

// ---- Own queues ----

void SliceTable::take_first_batch(SliceId from, BatchDraft& batch) {
  SliceState& slice = at(from);
  TANGRAM_CHECK(!slice.bound.empty(), "there is something to steal");
  const std::int64_t before = slice.bound.work_ns();
  slice.bound.take(slice.bound.first_batch_count(), batch);
  file(from, slice);
  set_free_at(from, slice, slice.free_at - Duration(before - slice.bound.work_ns()));
}

std::vector<Waiting*> SliceTable::clear_bound(SliceId id) {
  SliceState& slice = at(id);
  TANGRAM_CHECK(!serves(slice), "a queue is given up with its slice");
  return slice.bound.clear();  // It is in no list: those are for slices that serve.
}

// Running batches go on, so their slices are free when these end. Heaps and lists are wrong from here to rebuild.
std::vector<Waiting*> SliceTable::clear_all_bound() {
  std::vector<Waiting*> all;
  for (SliceState& slice : slices_) {
    slice.free_at -= Duration(slice.bound.work_ns());
    const std::vector<Waiting*> bound = slice.bound.clear();
    all.insert(all.end(), bound.begin(), bound.end());
  }
  return all;
}

// ---- Slices that come and go ----

// Every change of status but go_busy and go_idle, which are hot and know both sides, comes through here.
void SliceTable::set_status(SliceState& slice, SliceStatus status) {
  if (slice.status == SliceStatus::busy) --busy_;
  if (status == SliceStatus::gone && is_present(slice)) --pool_of(slice).present;
  slice.status = status;
}

void SliceTable::join(SliceId id, TimePoint now) {
  SliceState& slice = at(id);
  TANGRAM_CHECK(slice.status == SliceStatus::planned || slice.status == SliceStatus::restarting,
                "a slice joins after it was cut or restarted");
  set_status(slice, SliceStatus::idle);
  slice.on_demand.clear();
  slice.free_at = now;
  slice.idle_since = now;
  pool_of(slice).by_free_time.insert(id, now.time_since_epoch().count());
  file(id, slice);
}

void SliceTable::go_away(SliceId id, SliceStatus status) {
  SliceState& slice = at(id);
  TANGRAM_CHECK(may_go(slice.status, status), "a slice goes away step by step");
  if (serves(slice)) pool_of(slice).by_free_time.erase(id);
  set_status(slice, status);
  file(id, slice);
}

// `present` goes down here and not when the slice is gone: no request may wait for a slice that will not come back.
void SliceTable::leave(SliceId id) {
  SliceState& slice = at(id);
  if (serves(slice)) pool_of(slice).by_free_time.erase(id);
  if (is_present(slice)) --pool_of(slice).present;
  slice.retiring = true;
  if (slice.status == SliceStatus::idle) set_status(slice, SliceStatus::gone);
  file(id, slice);
}

void SliceTable::retire(SliceId id) {
  TANGRAM_CHECK(at(id).retiring || at(id).status == SliceStatus::planned, "only a slice that leaves is retired");
  set_status(at(id), SliceStatus::gone);
}

SliceList* SliceTable::list_of(const SliceState& slice) {
  PoolState& pool = pool_of(slice);
  if (slice.listed == SliceListKind::idle) return &pool.idle;
  return slice.listed == SliceListKind::backed_up ? &pool.backed_up : nullptr;
}

// Out of one list and to the end of another, both in constant time because the links are in the slices.
void SliceTable::relist(SliceId id, SliceListKind wanted) {
  SliceState& slice = at(id);
  if (SliceList* list = list_of(slice)) {
    (slice.list_previous == SliceState::kNone ? list->first : slices_[slice.list_previous].list_next) = slice.list_next;
    (slice.list_next == SliceState::kNone ? list->last : slices_[slice.list_next].list_previous) = slice.list_previous;
    --list->count;
  }
  slice.listed = wanted;
  slice.list_previous = slice.list_next = SliceState::kNone;
  if (SliceList* list = list_of(slice)) {
    slice.list_previous = list->last;
    (list->last == SliceState::kNone ? list->first : slices_[list->last].list_next) = id.value();
    list->last = id.value();
    ++list->count;
  }
}

// ---- Invariants ----

// The checks below recompute everything through the public readers, independently of the bookkeeping, so that they can
// detect an error in it.

namespace {

std::string why_slice_broken(const SliceTable& table, SliceId id) {
  const SliceState& slice = table[id.index()];
  if (slice.status == SliceStatus::gone) return slice.bound.empty() ? "" : "requests wait for a slice that is gone";
  const auto key = table.pool(slice.place.pool).by_free_time.key_of(id);
  if (key.has_value() != serves(slice)) return "it is in the heap and does not serve, or the reverse";
  if (key && *key != slice.free_at.time_since_epoch().count()) return "the heap has another time for it";
  if (slice.listed != list_for(slice)) return "it is in the wrong list";
  if (!slice.bound.empty() && !(serves(slice) && slice.status == SliceStatus::busy)) {
    return "requests wait for it and it is not busy";
  }
  if ((slice.status == SliceStatus::busy) == slice.members.empty()) return "it is busy without a batch, or the reverse";
  return slice.bound.why_broken();
}

std::string why_list_broken(const SliceTable& table, const SliceList& list, SliceListKind kind, std::size_t expected) {
  std::uint32_t count = 0;
  std::uint32_t before = SliceState::kNone;
  for (std::uint32_t i = list.first; i != SliceState::kNone && count <= table.size(); i = table[i].list_next) {
    if (table[i].listed != kind || table[i].list_previous != before) return "a list is not linked";
    before = i;
    ++count;
  }
  const bool right = before == list.last && count == list.count && count == expected;
  return right ? "" : fmt::format("a list has {} slices, {} are counted, {} belong there", count, list.count, expected);
}

std::string why_pool_broken(const SliceTable& table, PoolId id) {
  const PoolState& pool = table.pool(id);
  std::uint32_t present = 0;
  std::size_t serving = 0;
  std::size_t idle = 0;
  std::size_t backed_up = 0;
  for (const SliceState& slice : table) {
    if (slice.status == SliceStatus::gone || slice.place.pool != id) continue;
    present += is_present(slice) ? 1 : 0;
    serving += serves(slice) ? 1 : 0;
    idle += slice.listed == SliceListKind::idle ? 1 : 0;
    backed_up += slice.listed == SliceListKind::backed_up ? 1 : 0;
  }
  if (present != pool.present) return fmt::format("{} slices are present, {} counted", present, pool.present);
  if (serving != pool.by_free_time.size()) return "the heap has another number of slices";
  const std::string why = why_list_broken(table, pool.idle, SliceListKind::idle, idle);
  return why.empty() ? why_list_broken(table, pool.backed_up, SliceListKind::backed_up, backed_up) : why;
}

}  // namespace

std::string why_broken(const SliceTable& table) {
  std::size_t busy = 0;
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    busy += table[i].status == SliceStatus::busy ? 1 : 0;
    const std::string why = why_slice_broken(table, SliceId(i));
    if (!why.empty()) return fmt::format("slice {}: {}", i, why);
  }
  for (std::uint32_t p = 0; p < table.pools().size(); ++p) {
    const std::string why = why_pool_broken(table, PoolId(p));
    if (!why.empty()) return fmt::format("pool {}: {}", p, why);
  }
  return busy == table.busy_count() ? "" : fmt::format("{} slices are busy, {} counted", busy, table.busy_count());
}

}  // namespace tangram::sched

// Plans the move from one deployment to the next: which slices stay, leave and join, device by device.
//
// The joined deployment has the new plan's services and pools, then the old pools that still have slices. Slice numbers
// of the old plan stay valid, because running batches refer to them; joining slices are numbered behind them.
#include "sched/plan_move.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace tangram::sched {
namespace {

// Whether a slice of one pool may go on as one of the other: the same kind of slice with the same services and limits,
// loaded at the same time.
// Run times may differ: they are only predictions, and no model has to be loaded again for them.
bool same_work(const Pool& a, const Pool& b) {
  if (a.kind != b.kind || a.services.size() != b.services.size()) return false;
  for (std::size_t i = 0; i < a.services.size(); ++i) {
    if (a.services[i].service != b.services[i].service || a.services[i].batch_max != b.services[i].batch_max ||
        a.services[i].model.on_demand != b.services[i].model.on_demand) {
      return false;
    }
  }
  return true;
}

bool same_services(const Pool& a, const Pool& b) {
  return std::ranges::equal(a.services, b.services, {}, &PoolService::service, &PoolService::service);
}

// Builds the plan of a move, one function for each part, in the order of plan().
class MovePlanner {
 public:
  MovePlanner(const Deployment& old, std::span<const SliceState> slices, Deployment next)
      : old_(old), slices_(slices), next_(std::move(next)), joined_(next_) {}

  MovePlan plan() {
    join_devices();
    keep_old_pools();
    match_slices();
    order_steps();
    link_old_pools();
    return {std::move(joined_), std::move(steps_)};
  }

 private:
  // Joins the devices of both plans by name, with one step and the target layout for each.
  void join_devices() {
    joined_.devices = old_.devices;
    steps_.resize(old_.devices.size());
    for (std::uint32_t d = 0; d < old_.devices.size(); ++d) device_index_.emplace(old_.devices[d].name, d);
    for (const auto& device : next_.devices) {
      const auto [entry, is_new] =
          device_index_.try_emplace(device.name, static_cast<std::uint32_t>(joined_.devices.size()));
      if (is_new) {
        joined_.devices.push_back(device);
        // A new device has no slices until its step is done.
        joined_.devices.back().layout = {};
        steps_.emplace_back();
      }
      steps_[entry->second].target = device.layout;
    }
    for (std::uint32_t d = 0; d < steps_.size(); ++d) steps_[d].device = DeviceId(d);
  }

  // Old pools that have slices stay behind the new ones until the next plan, in terms of the new buckets.
  void keep_old_pools() {
    old_pools_begin_ = static_cast<std::uint32_t>(joined_.pools.size());
    moved_to_.resize(old_.pools.size());
    for (const auto& slice : slices_) {
      const std::size_t pool = slice.place.pool.index();
      if (slice.status == SliceStatus::gone || moved_to_[pool]) continue;
      moved_to_[pool] = PoolId(static_cast<std::uint32_t>(joined_.pools.size()));
      Pool translated = old_.pools[pool];
      translated.services = translated_services(old_.pools[pool]);
      joined_.pools.push_back(std::move(translated));
    }
  }

  // The services of an old pool in terms of the new plan. Services that shared queues may do so no more, and others may
  // begin to: there is one entry for each queue of the new plan that any service of the pool is in.
  std::vector<PoolService> translated_services(const Pool& pool) const {
    std::vector<PoolService> services;
    for (const auto& entry : pool.services) {
      for (std::uint32_t s = 0; s < old_.services.size(); ++s) {
        if (queue_of(old_, ServiceId(s)) != entry.service) continue;
        const ServiceId queue = queue_of(next_, ServiceId(s));
        if (std::ranges::find(services, queue, &PoolService::service) != services.end()) continue;
        services.push_back(translate(entry, old_.services[s].edges, next_.services[queue.index()].edges));
        services.back().service = queue;
      }
    }
    return services;
  }

  // A slice at this place of the next plan that exists, may stay and is not taken yet. Slices that share a place are
  // processes of one cut, told apart by their number.
  std::optional<std::size_t> find_slice(const Place& place) const {
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      const Place& at = slices_[i].place;
      if (kept_[i] || slices_[i].status == SliceStatus::gone || at.device != place.device || at.slice != place.slice ||
          at.process != place.process) {
        continue;
      }
      const Pool& before = joined_.pools[moved_to_[at.pool.index()]->index()];
      const Pool& next = next_.pools[place.pool.index()];
      // The process on the slice knows its models by the services of the old plan.
      if (same_work(before, next) && same_services(old_.pools[at.pool.index()], next)) return i;
    }
    return std::nullopt;
  }

  // Each place of the next plan is a slice that stays or one that joins; the slices that are left over leave.
  void match_slices() {
    joined_.places.clear();
    for (const auto& slice : slices_) joined_.places.push_back(slice.place);
    kept_.assign(slices_.size(), false);
    for (Place place : next_.places) {
      place.device = DeviceId(device_index_.at(next_.devices[place.device.index()].name));
      if (const auto found = find_slice(place)) {
        kept_[*found] = true;
        joined_.places[*found].pool = place.pool;
        continue;
      }
      steps_[place.device.index()].joining.emplace_back(static_cast<std::uint32_t>(joined_.places.size()));
      joined_.places.push_back(place);
    }
    for (std::uint32_t i = 0; i < slices_.size(); ++i) {
      Place& place = joined_.places[i];
      if (slices_[i].status == SliceStatus::gone) {
        place.pool = PoolId(0);  // Its pool may be gone as well.
      } else if (!kept_[i]) {
        place.pool = *moved_to_[place.pool.index()];
        steps_[place.device.index()].leaving.emplace_back(i);
      }
    }
  }

  void order_steps() {
    // A device is also re-cut for slices that serve nothing and are there to be lent: only its layout tells.
    std::erase_if(steps_, [&](const MoveStep& step) {
      return step.leaving.empty() && step.joining.empty() && joined_.devices[step.device.index()].layout == step.target;
    });
    // Devices that only gain slices go first and those that only lose go last, so capacity grows before it shrinks.
    std::ranges::stable_sort(steps_, {}, &MoveStep::kind);
  }

  // Adds the old pools to their services, and sorts the pools of each service by slice size, smallest first.
  void link_old_pools() {
    for (std::uint32_t p = old_pools_begin_; p < joined_.pools.size(); ++p) {
      for (const auto& entry : joined_.pools[p].services) {
        auto& service = joined_.services[entry.service.index()];
        service.pools.push_back(PoolId(p));
        service.samples_max =
            std::max(service.samples_max, entry.batch_max.empty() ? 1 : std::ranges::max(entry.batch_max));
      }
    }
    for (auto& service : joined_.services) {
      if (!service.joins) continue;
      service.pools = joined_.services[service.joins->index()].pools;
      service.samples_max = joined_.services[service.joins->index()].samples_max;
    }
    for (auto& service : joined_.services) {
      std::ranges::stable_sort(service.pools, {}, [&](PoolId id) {
        return std::pair(joined_.pools[id.index()].compute_slices, joined_.pools[id.index()].weight);
      });
    }
  }

  const Deployment& old_;
  std::span<const SliceState> slices_;
  Deployment next_;
  Deployment joined_;
  std::vector<MoveStep> steps_;
  std::map<std::string, std::uint32_t> device_index_;  // By name, of `joined_`.
  std::uint32_t old_pools_begin_ = 0;
  std::vector<std::optional<PoolId>> moved_to_;  // By old pool that has slices: its id in `joined_`.
  std::vector<bool> kept_;                       // By slice: the next plan has it.
};

}  // namespace

// A new bucket takes the limits and run times of the old bucket that covers its edge: they hold for any smaller size.
PoolService translate(const PoolService& entry, std::span<const std::int64_t> old_edges,
                      std::span<const std::int64_t> new_edges) {
  PoolService result{entry.service, std::vector<std::int32_t>(new_edges.size(), 0),
                     LatencyTable(new_edges.size(), std::max(1, entry.latency.samples_max())), entry.model};
  for (std::size_t b = 0; b < new_edges.size(); ++b) {
    const std::uint32_t from = bucket_of(old_edges, new_edges[b]);
    // Larger than any size the old slices were planned for: they do not take it.
    if (from == old_edges.size()) continue;
    result.batch_max[b] = entry.batch_max[from];
    for (std::int32_t n = 1; n <= entry.batch_max[from]; ++n) {
      result.latency.set(b, n, {Duration(entry.latency.mean_ns(from, n)), Duration(entry.latency.p99_ns(from, n))});
    }
  }
  return result;
}

MovePlan plan_move(const Deployment& old, std::span<const SliceState> slices, Deployment next) {
  TANGRAM_CHECK(next.services.size() >= old.services.size(), "a plan is for all services that are known");
  return MovePlanner(old, slices, std::move(next)).plan();
}

bool Move::may_begin() const {
  if (begun_ == steps_.size()) return false;
  if (turns_.empty()) return true;
  const MoveKind kind = steps_[begun_].kind();
  return kind != MoveKind::exchanges && kind == steps_[turns_.front().step].kind() && turns_.size() < at_once_;
}

// For each device: drain its leaving slices, wait until they are gone, re-cut it.
Move::Action Move::next(std::span<const SliceState> slices) {
  for (Turn& turn : turns_) {
    const auto gone = [&](SliceId id) { return slices[id.index()].status == SliceStatus::gone; };
    if (turn.reshaping || !std::ranges::all_of(steps_[turn.step].leaving, gone)) continue;
    turn.reshaping = true;
    ++turn.attempts;
    current_ = turn.step;
    return Action::reshape;
  }
  if (may_begin()) {
    current_ = begun_++;
    turns_.push_back({.step = current_});
    return Action::drain;
  }
  return turns_.empty() ? Action::done : Action::wait;
}

Move::Answer Move::on_reshaped(DeviceId device, bool ok, int attempts_max) {
  const auto turn = std::ranges::find_if(
      turns_, [&](const Turn& each) { return each.reshaping && steps_[each.step].device == device; });
  TANGRAM_CHECK(turn != turns_.end(), "the answer is to the re-cut that was asked for");
  current_ = turn->step;
  turn->reshaping = false;
  if (ok) return Answer::over;
  return turn->attempts >= attempts_max ? Answer::give_up : Answer::retry;
}

void Move::finish_step() {
  std::erase_if(turns_, [&](const Turn& turn) { return turn.step == current_; });
}

}  // namespace tangram::sched

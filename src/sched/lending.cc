#include "sched/lending.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace tangram::sched {

Lending::Lending(Scheduler& scheduler, const LendingConfig& config, std::vector<ServiceNeeds> needs)
    : scheduler_(scheduler), config_(config), needs_(std::move(needs)) {
  const State& state = scheduler.state();
  TANGRAM_CHECK(needs_.size() == state.services.size(), "there is a table for each service");
  std::map<std::tuple<DeviceId, std::uint16_t, std::uint16_t>, std::size_t> known;
  for (std::uint32_t i = 0; i < state.slices.size(); ++i) {
    const Place& at = state.slices[i].place;
    const auto [place, is_new] = known.try_emplace({at.device, at.slice.profile, at.slice.start}, units_.size());
    if (is_new) {
      const Pool& pool = state.deployment.pools[at.pool.index()];
      units_.push_back({at.device, at.slice, {}, pool.compute_slices, pool.weight});
    }
    units_[place->second].places.push_back(SliceId(i));
  }
  for (const auto& service : needs_) {
    order_.emplace_back();
    for (const auto& slice : service.slices) {
      const Place& at = state.slices[slice.front().index()].place;
      const std::size_t unit = known.at({at.device, at.slice.profile, at.slice.start});
      const bool shared = state.deployment.pools[at.pool.index()].services.size() > 1;
      units_[unit].pinned = shared || service.needs.empty();
      order_.back().push_back(unit);
    }
  }
  arrived_.assign(needs_.size(), 0);
  rates_.assign(needs_.size(), 0);
  ticks_.push_back({state.now, arrived_});
}

double Lending::arrivals_since(std::size_t service, TimePoint since, double* seconds) const {
  // The last tick that lies at `since` or before, or else the first.
  const Tick* from = &ticks_.front();
  for (const auto& tick : ticks_) {
    if (tick.at > since) break;
    from = &tick;
  }
  *seconds = to_seconds(now_ - from->at);
  return static_cast<double>(arrived_[service] - from->arrived[service]);
}

void Lending::measure(TimePoint now) {
  now_ = now;
  while (ticks_.size() > 1 && ticks_[1].at <= now - config_.window) ticks_.pop_front();
  for (std::size_t s = 0; s < rates_.size(); ++s) {
    double seconds = 0;
    const double arrived = arrivals_since(s, now - config_.window, &seconds);
    double burst_s = 0;
    const double burst = arrivals_since(s, now - config_.window_burst, &burst_s);
    // Upwards the benefit of the doubt, except over the short window, where a burst has to be beyond doubt.
    const double high = seconds > 0 ? (arrived + config_.deviations * std::sqrt(arrived + 1)) / seconds : 0;
    const double low = burst_s > 0 ? (burst - config_.deviations * std::sqrt(burst)) / burst_s : 0;
    rates_[s] = std::max(high, low);
  }
  ticks_.push_back({now, arrived_});
}

std::size_t Lending::needed(std::size_t service) const {
  for (const auto& need : needs_[service].needs) {
    if (rates_[service] <= need.rate_per_s) return need.slices;
  }
  return order_[service].size();
}

void Lending::on_tick(TimePoint now) {
  measure(now);
  const bool known = now - ticks_.front().at >= config_.window;  // Until then everything is kept.
  for (std::size_t s = 0; s < order_.size(); ++s) {
    const std::size_t count = known ? needed(s) : order_[s].size();
    for (std::size_t k = 0; k < order_[s].size(); ++k) {
      Unit& unit = units_[order_[s][k]];
      if (unit.pinned) continue;
      if (unit.needed_until == kTimeNever) unit.needed_until = now;
      if (k >= count) continue;
      unit.needed_until = now + config_.guard;
      recall(order_[s][k]);
    }
  }
}

LeaseState Lending::state(std::size_t index) const {
  const Unit& unit = units_[index];
  std::size_t lent = 0;
  std::size_t running = 0;
  std::size_t returning = 0;
  for (const SliceId id : unit.places) {
    const SliceStatus status = scheduler_.state().slices[id.index()].status;
    lent += status == SliceStatus::lent ? 1 : 0;
    running += status == SliceStatus::busy ? 1 : 0;
    returning += status == SliceStatus::recalling ? 1 : 0;
    if (status != SliceStatus::lent && status != SliceStatus::busy && status != SliceStatus::recalling &&
        status != SliceStatus::idle) {
      return LeaseState::away;
    }
  }
  if (returning > 0) return LeaseState::recalling;
  if (lent == unit.places.size()) return LeaseState::lent;
  if (lent > 0) return LeaseState::lending;
  if (running > 0) return LeaseState::running;
  return may_lend(index) ? LeaseState::asleep : LeaseState::guarded;
}

bool Lending::lend(std::size_t index) {
  TANGRAM_CHECK(may_lend(index), "what is needed is not lent");
  bool all = true;
  for (const SliceId id : units_[index].places) {
    const bool away = scheduler_.state().slices[id.index()].status == SliceStatus::lent;
    all = (away || scheduler_.lend(id)) && all;
  }
  return all;
}

void Lending::recall(std::size_t index) {
  for (const SliceId id : units_[index].places) scheduler_.recall(id);
}

}  // namespace tangram::sched

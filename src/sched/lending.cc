// Decides which slices a service does not need now and may lend, and when to recall them.
//
// A table says how many slices each arrival rate needs. The rate is estimated with a bias upwards: a slice lent too
// early costs Slos, while a slice kept too long only costs some offline work.
#include "sched/lending.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "sched/policy.h"

namespace tangram::sched {
namespace {

constexpr double kCautionStep = 1.1;     // At a tick with losses.
constexpr double kCautionMax = 2;        // Then a service lends next to nothing.
constexpr double kCautionDecay = 0.999;  // At a tick without.

// The slice of the scheduler that is `place` of `planned`; nothing: it has none, or one with other services.
std::optional<SliceId> slice_at(const State& state, const Deployment& planned, const Place& place) {
  const std::string& device = planned.devices[place.device.index()].name;
  for (std::uint32_t i = 0; i < state.slices.size(); ++i) {
    const Place& at = state.slices[i].place;
    if (state.slices[i].status == SliceStatus::gone || at.slice != place.slice || at.process != place.process) continue;
    if (state.deployment.devices[at.device.index()].name != device) continue;
    const bool same = std::ranges::equal(state.deployment.pools[at.pool.index()].services,
                                         planned.pools[place.pool.index()].services, {}, &PoolService::service,
                                         &PoolService::service);
    return same ? std::optional(SliceId(i)) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<ServiceNeeds>> needs_of_running(const State& state, const LendingPlan& plan) {
  if (plan.deployment == nullptr || plan.needs.size() != state.services.size()) return std::nullopt;
  const auto& services = plan.deployment->services;
  if (!std::ranges::equal(services, state.deployment.services, {}, &DeployedService::name, &DeployedService::name)) {
    return std::nullopt;
  }
  std::vector<SliceId> ids;
  for (const Place& place : plan.deployment->places) {
    const auto id = slice_at(state, *plan.deployment, place);
    if (!id) return std::nullopt;
    ids.push_back(*id);
  }
  auto needs = plan.needs;
  for (auto& service : needs) {
    for (auto& slice : service.slices) {
      for (auto& id : slice) id = ids[id.index()];
    }
  }
  return needs;
}

Lending::Lending(Scheduler& scheduler, const LendingConfig& config, std::vector<ServiceNeeds> needs)
    : scheduler_(scheduler), config_(config), needs_(std::move(needs)) {
  const State& state = scheduler.state();
  TANGRAM_CHECK(needs_.size() == state.services.size(), "there is a table for each service");
  std::map<std::tuple<DeviceId, std::uint16_t, std::uint16_t>, std::size_t> known;
  for (std::uint32_t i = 0; i < state.slices.size(); ++i) {
    if (state.slices[i].status == SliceStatus::gone) continue;
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
      order_.back().push_back(unit);
    }
  }
  // A slice is lent if every service on it has a table, and services that share it agree on one.
  for (const auto& order : order_) {
    for (const std::size_t unit : order) units_[unit].pinned = false;
  }
  for (std::size_t s = 0; s < needs_.size(); ++s) {
    for (std::size_t k = 0; k < order_[s].size(); ++k) {
      const Place& at = state.slices[needs_[s].slices[k].front().index()].place;
      const bool shared = state.deployment.pools[at.pool.index()].services.size() > 1;
      Unit& unit = units_[order_[s][k]];
      unit.pinned = unit.pinned || needs_[s].needs.empty() || (shared && needs_[s].sharers.empty());
    }
  }
  arrived_.assign(needs_.size(), 0);
  rates_.assign(needs_.size(), 0);
  rates_certain_.assign(needs_.size(), 0);
  work_rates_.assign(needs_.size(), 0);
  caution_.assign(needs_.size(), 1);
  // A first tick, so that arrivals_since() always has one to count from.
  ticks_.push_back({state.now, arrived_});
}

Lending::Count Lending::arrivals_since(std::size_t service, TimePoint since) const {
  // The last tick that lies at `since` or before, or else the first.
  const Tick* from = &ticks_.front();
  for (const auto& tick : ticks_) {
    if (tick.at > since) break;
    from = &tick;
  }
  return {static_cast<double>(arrived_[service] - from->arrived[service]), to_seconds(now_ - from->at)};
}

Lending::Count Lending::work_since(std::size_t service, TimePoint since) const {
  Count work;
  for (const auto& [sharer, request_s] : needs_[service].sharers) {
    const Count count = arrivals_since(sharer.index(), since);
    work.arrived += request_s * count.arrived;
    work.spread += request_s * request_s * count.arrived;
    work.seconds = count.seconds;
  }
  return work;
}

// The rate at the time when a slice recalled now serves again, extrapolated from the rise between the two halves of the
// window as far as the rise is statistically certain; 0 if it is not.
double Lending::forecast(const Count& window, const Count& newer) const {
  const Count older{window.arrived - newer.arrived, window.seconds - newer.seconds, window.spread - newer.spread};
  if (older.seconds <= 0 || newer.seconds <= 0) return 0;
  const double doubt = config_.deviations * std::sqrt(older.variance() + newer.variance());
  const double rise = newer.rate() - older.rate() - doubt;
  if (rise <= 0) return 0;
  return newer.rate() + rise / (window.seconds / 2) * (newer.seconds / 2 + to_seconds(config_.lead));
}

void Lending::measure(TimePoint now) {
  now_ = now;
  // The newest tick outside the window stays: it is the beginning of the window.
  while (ticks_.size() > 1 && ticks_[1].at <= now - config_.window) ticks_.pop_front();
  for (std::size_t s = 0; s < rates_.size(); ++s) {
    rates_[s] = margined_rate([&](TimePoint since) { return arrivals_since(s, since); });
    const auto& sharers = needs_[s].sharers;
    if (sharers.empty()) continue;
    const Count burst = arrivals_since(s, now - config_.window_burst);
    const Count window = arrivals_since(s, now - config_.window);
    rates_certain_[s] = std::max(burst.rate() - config_.deviations * std::sqrt(burst.variance()),
                                 window.rate() - config_.deviations * std::sqrt(window.variance()));
    // The sum is the same for all that share, so it is made once for them.
    const std::size_t first = sharers.front().service.index();
    work_rates_[s] =
        first < s ? work_rates_[first] : margined_rate([&](TimePoint since) { return work_since(s, since); });
  }
  ticks_.push_back({now, arrived_});
}

template <typename CountSince>
double Lending::margined_rate(const CountSince& count_since) const {
  const Count window = count_since(now_ - config_.window);
  const Count burst = count_since(now_ - config_.window_burst);
  // One more request of the mean size: nothing arrived is not certainty.
  const double one = window.arrived > 0 ? window.spread * window.spread / (window.arrived * window.arrived) : 1;
  // The long window is rounded up by its uncertainty; the short one is rounded down, so only a certain burst counts.
  const double high =
      window.seconds > 0 ? window.rate() + config_.deviations * std::sqrt(window.spread + one) / window.seconds : 0;
  const double low = burst.rate() - config_.deviations * std::sqrt(burst.variance());
  return std::max({high, low, forecast(window, count_since(now_ - config_.window / 2))});
}

// Services that share slices are looked up by the work of all of them: the rates of many small services are uncertain
// one by one and certain together. The table holds while none of them has a larger share of its highest rate than the
// others, so a service that surely has is looked up by itself.
double Lending::rate_to_look_up(std::size_t service) const {
  const auto& [slices, needs, sharers] = needs_[service];
  if (sharers.empty() || needs.empty()) return rates_[service];
  double work_planned = 0;
  for (const auto& [sharer, request_s] : sharers) {
    if (needs_[sharer.index()].needs.empty()) return rates_[service];
    work_planned += request_s * needs_[sharer.index()].needs.back().rate_per_s;
  }
  const double share = work_planned > 0 ? work_rates_[service] / work_planned : 1;
  return std::max(share * needs.back().rate_per_s, rates_certain_[service]);
}

std::size_t Lending::needed(std::size_t service) const {
  const double rate = rate_to_look_up(service);
  for (const auto& need : needs_[service].needs) {
    if (rate * config_.headroom * caution_[service] <= need.rate_per_s) return need.slices;
  }
  // A rate beyond the table needs everything.
  return order_[service].size();
}

// The tables say what should be enough; lost requests show that it was not. A service that loses requests gets all its
// slices back, and lends with a larger margin for a while.
bool Lending::falls_short(std::size_t service) {
  const bool silent = config_.forgives_in_silence && arrivals_since(service, now_ - config_.window).arrived == 0;
  const bool lost = !silent && View(scheduler_.state()).is_short(ServiceId(static_cast<std::uint32_t>(service)));
  const bool lends = std::ranges::any_of(order_[service], [&](std::size_t unit) {
    const LeaseState state = this->state(unit);
    return state == LeaseState::lent || state == LeaseState::lending || state == LeaseState::recalling;
  });
  double& caution = caution_[service];
  caution = lost && lends ? std::min(caution * kCautionStep, kCautionMax) : std::max(1.0, caution * kCautionDecay);
  return lost;
}

void Lending::on_tick(TimePoint now) {
  measure(now);
  const bool known = now - ticks_.front().at >= config_.window;  // Until then everything is kept.
  for (std::size_t s = 0; s < order_.size(); ++s) {
    const std::size_t count = known && !falls_short(s) ? needed(s) : order_[s].size();
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

// A unit is one cut, which may have several processes; it is lent only when all of them are.
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

#include "plan/reserve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "plan/demand.h"

namespace tangram::plan {
namespace {

constexpr double kCapacityEpsilon = 1e-9;
constexpr std::size_t kPrunedUpTo = 64;  // Devices. Beyond it, spare devices that prove needless stay.

// Which offer of which service a replica is.
struct Place {
  std::size_t service = 0;
  std::size_t offer = 0;
};

// The devices of a plan as numbers of offers, to ask what their loss takes away.
class LossCheck {
 public:
  LossCheck(const Problem& problem, const PlanAnswer& answer) : stock_(take_stock(problem)) {
    for (std::size_t s = 0; s < answer.services.size(); ++s) {
      demands_.push_back(make_demand(problem, stock_, s, answer.services[s].edges));
      CoverService service;
      service.demand = demands_.back().rate_per_s;
      for (const auto& offer : demands_.back().offers) service.offers.push_back({offer.kind, offer.rate_per_s});
      services_.push_back(std::move(service));
      auto& replicas = replicas_.emplace_back();
      for (const auto& offer : demands_.back().offers) {
        replicas.push_back(replica_group(problem, stock_, demands_.back(), offer, 1).replica);
      }
      index_[answer.services[s].service] = s;
    }
  }

  std::size_t services() const { return services_.size(); }

  // Slices of each offer on the device, by service.
  std::vector<Cover> covers_of(const PlannedDevice& device) const {
    std::vector<Cover> covers;
    for (const auto& service : services_) covers.emplace_back(service.offers.size(), 0);
    for (const auto& slice : device.slices) {
      for (const auto& replica : slice.replicas) {
        const std::size_t s = index_.at(replica.service);
        const std::string& profile = device.geometry.profiles[slice.slice.profile].name;
        for (std::size_t o = 0; o < replicas_[s].size(); ++o) {
          const std::size_t kind = demands_[s].offers[o].kind;
          if (stock_.type(kind) != device.type || stock_.profile(kind).name != profile) continue;
          if (replicas_[s][o] != replica) continue;
          ++covers[s][o];
          break;
        }
      }
    }
    return covers;
  }

  std::vector<Cover> sum(const std::vector<std::vector<Cover>>& devices) const {
    std::vector<Cover> total;
    for (const auto& service : services_) total.emplace_back(service.offers.size(), 0);
    for (const auto& covers : devices) {
      for (std::size_t s = 0; s < total.size(); ++s) {
        for (std::size_t o = 0; o < total[s].size(); ++o) total[s][o] += covers[s][o];
      }
    }
    return total;
  }

  // How many services lack capacity when `lost` is taken from `total`.
  std::size_t short_after(const std::vector<Cover>& total, const std::vector<Cover>& lost) const {
    std::size_t count = 0;
    for (std::size_t s = 0; s < total.size(); ++s) {
      Cover left = total[s];
      for (std::size_t o = 0; o < left.size(); ++o) left[o] -= lost[s][o];
      if (cover_load_factor(services_[s], left) < 1 - kCapacityEpsilon) ++count;
    }
    return count;
  }
  double load_factor(std::size_t s, const Cover& cover) const { return cover_load_factor(services_[s], cover); }

 private:
  Stock stock_;
  std::vector<Demand> demands_;
  std::vector<CoverService> services_;
  std::vector<std::vector<Replica>> replicas_;  // By service and offer.
  std::map<std::string, std::size_t> index_;
};

// Deals the replicas out anew over slices of the same kind, so that each service loses as little as possible with any
// one device: every replica goes to the device that has the fewest of its service.
void spread(Plan& plan) {
  struct Slot {
    std::size_t device = 0;
    std::size_t slice = 0;
  };
  std::map<std::pair<std::string, std::uint16_t>, std::vector<Slot>> slots;
  std::map<std::pair<std::string, std::uint16_t>, std::vector<Replica>> replicas;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    auto& device = plan.devices[d];
    for (std::size_t i = 0; i < device.slices.size(); ++i) {
      auto& slice = device.slices[i];
      const std::pair kind(device.type, slice.slice.profile);
      slots[kind].push_back({d, i});
      if (slice.replicas.empty()) continue;
      replicas[kind].push_back(std::move(slice.replicas.front()));
      slice.replicas.clear();
    }
  }
  std::vector<std::map<std::string, int>> held(plan.devices.size());
  for (auto& [kind, waiting] : replicas) {
    auto& free = slots[kind];
    std::ranges::stable_sort(waiting, {}, &Replica::service);
    for (auto& replica : waiting) {
      const auto best = std::ranges::min_element(
          free, {}, [&](const Slot& slot) { return std::pair(held[slot.device][replica.service], slot.device); });
      ++held[best->device][replica.service];
      plan.devices[best->device].slices[best->slice].replicas = {std::move(replica)};
      free.erase(best);
    }
  }
}

const DeviceGroup* group_of(const Fleet& fleet, const PlannedDevice& device) {
  for (const auto& group : fleet.groups) {
    const std::string& prefix = group.name.empty() ? group.type : group.name;
    if (group.type == device.type && device.name.starts_with(prefix + "-")) return &group;
  }
  return nullptr;
}

// Devices are numbered anew in each group, so that a name never stands twice.
void rename(const Fleet& fleet, Plan& plan) {
  std::map<const DeviceGroup*, int> next;
  for (auto& device : plan.devices) {
    const DeviceGroup* group = group_of(fleet, device);
    if (group == nullptr) continue;
    device.name = fmt::format("{}-{}", group->name.empty() ? group->type : group->name, next[group]++);
  }
}

std::string why_too_few(const Fleet& fleet, const Plan& plan) {
  for (const auto& group : fleet.groups) {
    const auto used = std::ranges::count_if(
        plan.devices, [&](const PlannedDevice& device) { return group_of(fleet, device) == &group; });
    if (!group.count || used <= *group.count) continue;
    return fmt::format(
        "to lose any one device and still carry all services takes {} of {}, and the fleet has {}; add {} or set "
        "spare: none",
        used, group.name.empty() ? group.type : group.name, *group.count, used - *group.count);
  }
  return {};
}

struct Devices {
  std::vector<std::vector<Cover>> covers;

  // The loss that leaves most services short, or covers.size() if none does.
  std::size_t worst(const LossCheck& check) const {
    const auto total = check.sum(covers);
    std::size_t worst = covers.size();
    std::size_t most = 0;
    std::set<std::vector<Cover>> seen;
    for (std::size_t d = 0; d < covers.size(); ++d) {
      if (!seen.insert(covers[d]).second) continue;
      const std::size_t count = check.short_after(total, covers[d]);
      if (count > most) worst = d;
      most = std::max(most, count);
    }
    return worst;
  }
};

// Copies the device whose loss hurts most until none hurts. A device that has a copy can be lost, so each kind of
// device is copied once at most. Then takes away what proved needless.
void add_devices(const LossCheck& check, Plan& plan) {
  Devices devices;
  for (const auto& device : plan.devices) devices.covers.push_back(check.covers_of(device));
  for (std::size_t d = devices.worst(check); d < devices.covers.size(); d = devices.worst(check)) {
    plan.devices.push_back(plan.devices[d]);
    devices.covers.push_back(devices.covers[d]);
  }
  if (plan.devices.size() > kPrunedUpTo) return;
  for (std::size_t d = plan.devices.size(); d-- > 0 && plan.devices.size() > 1;) {
    Devices fewer = devices;
    fewer.covers.erase(fewer.covers.begin() + static_cast<std::ptrdiff_t>(d));
    if (fewer.worst(check) < fewer.covers.size()) continue;
    devices = std::move(fewer);
    plan.devices.erase(plan.devices.begin() + static_cast<std::ptrdiff_t>(d));
  }
}

// Counts the groups of replicas anew after devices were added.
void recount(const LossCheck& check, PlanAnswer& answer) {
  std::vector<std::vector<Cover>> covers;
  for (const auto& device : answer.plan.devices) covers.push_back(check.covers_of(device));
  const auto total = check.sum(covers);
  for (std::size_t s = 0; s < answer.services.size(); ++s) {
    answer.services[s].load_factor = check.load_factor(s, total[s]);
    for (auto& group : answer.services[s].groups) {
      group.count = 0;
      for (const auto& device : answer.plan.devices) {
        for (const auto& slice : device.slices) {
          const bool same = device.type == group.device_type &&
                            device.geometry.profiles[slice.slice.profile].name == group.mig_profile;
          if (same) group.count += static_cast<int>(std::ranges::count(slice.replicas, group.replica));
        }
      }
    }
  }
}

PlanAnswer with_spare(const Problem& problem, PlanAnswer answer) {
  if (answer.status != PlanStatus::planned || problem.fleet.spare != SparePolicy::one_device) return answer;
  const LossCheck check(problem, answer);
  const std::size_t before = answer.plan.devices.size();
  spread(answer.plan);
  add_devices(check, answer.plan);
  if (auto reason = why_too_few(problem.fleet, answer.plan); !reason.empty()) {
    PlanAnswer none;
    none.reason = std::move(reason);
    return none;
  }
  double price = 0;
  for (const auto& device : answer.plan.devices) {
    const DeviceGroup* group = group_of(problem.fleet, device);
    price += problem.options.objective != Objective::price || group == nullptr ? 1 : group->price_per_hour;
  }
  rename(problem.fleet, answer.plan);
  recount(check, answer);
  answer.price = price;
  answer.devices = static_cast<int>(answer.plan.devices.size());
  answer.proved = answer.proved && answer.plan.devices.size() == before;
  return answer;
}

// Factors beyond these are not looked at: the rates were not meant.
constexpr double kFactorMax = 1 << 20;
constexpr double kFactorMin = 1.0 / 1024;
constexpr double kFactorStep = 1.01;

struct Probe {
  double factor = 0;
  PlanAnswer answer;
};

// The largest factor at which there is a plan, with the plan; factor 0 if there is none. `start` is a first guess.
Probe largest_factor(const Problem& problem, const PlanOnce& plan_once, double start) {
  const auto plan_at = [&](double factor) {
    Problem scaled = problem;
    scaled.workload = scale_rates(problem.workload, factor);
    return with_spare(scaled, plan_once(scaled));
  };
  Probe best{0, plan_at(start)};
  double low = start;
  double high = start;
  if (best.answer.status == PlanStatus::planned) {
    best.factor = start;
    while (high < kFactorMax) {
      high *= 2;
      PlanAnswer answer = plan_at(high);
      if (answer.status != PlanStatus::planned) break;
      low = high;
      best = {high, std::move(answer)};
    }
  } else {
    while (low > kFactorMin && best.factor == 0) {
      high = low;
      low /= 2;
      PlanAnswer answer = plan_at(low);
      if (answer.status == PlanStatus::planned || low <= kFactorMin) {
        best = {answer.status == PlanStatus::planned ? low : 0, std::move(answer)};
      }
    }
    if (best.factor == 0) return best;
  }
  while (high / low > kFactorStep) {
    const double middle = std::sqrt(low * high);
    PlanAnswer answer = plan_at(middle);
    if (answer.status != PlanStatus::planned) {
      high = middle;
      continue;
    }
    low = middle;
    best = {middle, std::move(answer)};
  }
  return best;
}

PlanAnswer plan_headroom(const Problem& problem, const PlanOnce& plan_once) {
  for (const auto& group : problem.fleet.groups) {
    if (group.count) continue;
    PlanAnswer none;
    none.reason = fmt::format(
        "room to grow is without limit on a fleet without one; give {} a count, or choose another objective",
        group.name.empty() ? group.type : group.name);
    return none;
  }
  double start = 1;
  if (problem.options.rule == Rule::certified) {
    // Where nothing waits, planning takes no simulation, and promises hold at more: a cheap guess from above.
    Problem cheap = problem;
    cheap.options.rule = Rule::no_waiting;
    cheap.budget.progress = {};
    start = largest_factor(cheap, plan_once, 1).factor;
    if (start <= 0) start = 1;
  }
  Probe best = largest_factor(problem, plan_once, start);
  best.answer.headroom = best.factor;
  return std::move(best.answer);
}

}  // namespace

Workload scale_rates(Workload workload, double factor) {
  for (auto& service : workload.services) {
    std::visit(
        [&](auto& traffic) {
          using T = std::decay_t<decltype(traffic)>;
          if constexpr (std::is_same_v<T, TraceTraffic>) {
            traffic.speed *= factor;
          } else if constexpr (std::is_same_v<T, CurveTraffic>) {
            traffic.scale *= factor;
          } else if constexpr (!std::is_same_v<T, ClosedLoopTraffic>) {
            traffic.rate_per_s *= factor;
          }
        },
        service.traffic);
  }
  return workload;
}

PlanAnswer plan_with_reserve(const Problem& problem, const PlanOnce& plan_once) {
  if (problem.options.objective == Objective::headroom) return plan_headroom(problem, plan_once);
  return with_spare(problem, plan_once(problem));
}

}  // namespace tangram::plan

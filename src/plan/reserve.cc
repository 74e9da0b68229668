#include "plan/reserve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "plan/compose.h"
#include "plan/demand.h"
#include "plan/explain.h"

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
  LossCheck(const Problem& problem, const PlanAnswer& answer) : problem_(problem), stock_(take_stock(problem)) {
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

  bool certifies() const { return problem_.options.rule == Rule::certified; }
  Verdict certify(std::size_t s, const Cover& cover) const {
    ++asked_;
    return certify_cover(problem_, stock_, demands_[s], cover, true);
  }
  std::int64_t asked() const { return asked_; }

  // Whether `total` keeps the promises that `first` keeps. More slices of each offer do; anything else is certified.
  bool keeps_promises(const std::vector<Cover>& first, const std::vector<Cover>& total) const {
    for (std::size_t s = 0; s < total.size() && certifies(); ++s) {
      const bool more = std::ranges::equal(total[s], first[s], std::ranges::greater_equal{});
      if (!more && !certify(s, total[s]).holds) return false;
    }
    return true;
  }

 private:
  const Problem& problem_;
  Stock stock_;
  std::vector<Demand> demands_;
  std::vector<CoverService> services_;
  std::vector<std::vector<Replica>> replicas_;  // By service and offer.
  std::map<std::string, std::size_t> index_;
  mutable std::int64_t asked_ = 0;
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
// device is copied once at most. Then takes away what proved needless for capacity and promises.
void add_devices(const LossCheck& check, Plan& plan) {
  Devices devices;
  for (const auto& device : plan.devices) devices.covers.push_back(check.covers_of(device));
  const auto first = check.sum(devices.covers);
  for (std::size_t d = devices.worst(check); d < devices.covers.size(); d = devices.worst(check)) {
    plan.devices.push_back(plan.devices[d]);
    devices.covers.push_back(devices.covers[d]);
  }
  if (plan.devices.size() > kPrunedUpTo) return;
  for (std::size_t d = plan.devices.size(); d-- > 0 && plan.devices.size() > 1;) {
    Devices fewer = devices;
    fewer.covers.erase(fewer.covers.begin() + static_cast<std::ptrdiff_t>(d));
    if (fewer.worst(check) < fewer.covers.size()) continue;
    if (!check.keeps_promises(first, check.sum(fewer.covers))) continue;
    devices = std::move(fewer);
    plan.devices.erase(plan.devices.begin() + static_cast<std::ptrdiff_t>(d));
  }
}

std::vector<Cover> covers_of_plan(const LossCheck& check, const Plan& plan) {
  std::vector<std::vector<Cover>> covers;
  for (const auto& device : plan.devices) covers.push_back(check.covers_of(device));
  return check.sum(covers);
}

bool serves(const PlannedDevice& device, const std::string& service) {
  return std::ranges::any_of(device.slices, [&](const PlannedSlice& slice) {
    return std::ranges::any_of(slice.replicas, [&](const Replica& replica) { return replica.service == service; });
  });
}

// Certifies every service on all devices that the plan now has. One that fails gets a copy of its first device, a few
// times over. Empty if all hold in the end, else the name of one that does not.
constexpr int kCertifiedCopiesMax = 4;

std::string certify_all(const LossCheck& check, PlanAnswer& answer) {
  for (int copies = 0; check.certifies(); ++copies) {
    const auto total = covers_of_plan(check, answer.plan);
    const ServicePlan* failed = nullptr;
    for (std::size_t s = 0; s < answer.services.size(); ++s) {
      answer.services[s].verdict = check.certify(s, total[s]);
      if (!answer.services[s].verdict->holds) failed = &answer.services[s];
    }
    if (failed == nullptr) break;
    if (copies == kCertifiedCopiesMax) return failed->service;
    const auto holds_it = [&](const PlannedDevice& device) { return serves(device, failed->service); };
    const PlannedDevice copy = *std::ranges::find_if(answer.plan.devices, holds_it);
    answer.plan.devices.push_back(copy);
  }
  return {};
}

int count_of(const Plan& plan, const ReplicaGroup& group) {
  int count = 0;
  for (const auto& device : plan.devices) {
    for (const auto& slice : device.slices) {
      const bool same =
          device.type == group.device_type && device.geometry.profiles[slice.slice.profile].name == group.mig_profile;
      if (same) count += static_cast<int>(std::ranges::count(slice.replicas, group.replica));
    }
  }
  return count;
}

// Counts the groups of replicas anew after devices came and went.
void recount(const LossCheck& check, PlanAnswer& answer) {
  const auto total = covers_of_plan(check, answer.plan);
  for (std::size_t s = 0; s < answer.services.size(); ++s) {
    auto& service = answer.services[s];
    service.load_factor = check.load_factor(s, total[s]);
    for (auto& group : service.groups) group.count = count_of(answer.plan, group);
    std::erase_if(service.groups, [](const ReplicaGroup& group) { return group.count == 0; });
  }
}

PlanAnswer no_spare(std::int64_t asked, std::string service, std::string reason) {
  PlanAnswer none;
  none.service = std::move(service);
  none.reason = std::move(reason);
  none.certifications = asked;
  return none;
}

PlanAnswer with_spare(const Problem& problem, PlanAnswer answer) {
  if (answer.status != PlanStatus::planned || problem.fleet.spare != SparePolicy::one_device) return answer;
  const LossCheck check(problem, answer);
  spread(answer.plan);
  add_devices(check, answer.plan);
  const std::string failed = certify_all(check, answer);
  answer.certifications += check.asked();
  if (!failed.empty()) {
    return no_spare(answer.certifications, failed,
                    failed + ": its Slo is not kept by the plan with a spare device; set spare: none, or a longer Slo");
  }
  if (auto reason = why_too_few(problem.fleet, answer.plan); !reason.empty()) {
    return no_spare(answer.certifications, "", std::move(reason));
  }
  recount(check, answer);
  const double price_bare = answer.price;
  answer.price = plan_price(problem, answer.plan);
  rename(problem.fleet, answer.plan);
  answer.devices = static_cast<int>(answer.plan.devices.size());
  // A plan that may lose a device is a plan: the bound without spares holds, and proves this one best only where it
  // costs no more.
  answer.proved = answer.proved && answer.price <= price_bare * (1 + 1e-9);
  return answer;
}

// Factors beyond these are not looked at: the rates were not meant.
constexpr double kFactorMax = 1 << 20;
constexpr double kFactorMin = 1.0 / 1024;
constexpr double kFactorStep = 1.01;
// With simulations each factor takes seconds, and chance blurs what lies closer together.
constexpr double kFactorStepCertified = 1.02;
// Questions while the plan for one factor is searched. A plan that is found has been confirmed, however few they were.
constexpr std::int64_t kProbeQuestionsMax = 500;

// Passes on so many different questions, and says no to the others. The search for a factor needs no proof that fewer
// devices would not do, which is what most questions are for.
class LimitedCertifier final : public Certifier {
 public:
  explicit LimitedCertifier(Certifier& certifier) : certifier_(certifier) {}

  Verdict certify(const Service& service, std::span<const ReplicaGroup> groups, bool confirm) override {
    if (confirm) return ask(service, groups, true);
    const auto [known, fresh] = verdicts_.try_emplace(key_of(service, groups));
    if (fresh && questions_ < kProbeQuestionsMax) {
      ++questions_;
      known->second = ask(service, groups, false);
    }
    return known->second;
  }
  std::int64_t asked() const { return asked_; }

 private:
  static std::string key_of(const Service& service, std::span<const ReplicaGroup> groups) {
    std::string key = service.name;
    for (const auto& group : groups) {
      key += fmt::format("|{}/{}*{}*{}", group.device_type, group.mig_profile, group.count, group.replica.processes);
      for (const auto& bucket : group.replica.buckets) key += fmt::format(",{}:{}", bucket.size_max, bucket.batch_size);
    }
    return key;
  }
  Verdict ask(const Service& service, std::span<const ReplicaGroup> groups, bool confirm) {
    ++asked_;
    return certifier_.certify(service, groups, confirm);
  }

  Certifier& certifier_;
  std::map<std::string, Verdict> verdicts_;
  std::int64_t questions_ = 0;
  std::int64_t asked_ = 0;
};

bool all_hold(const PlanAnswer& answer) {
  return std::ranges::all_of(answer.services, [](const ServicePlan& s) { return !s.verdict || s.verdict->holds; });
}

// Looks for the largest factor at which there is a plan whose every service was confirmed.
class FactorSearch {
 public:
  FactorSearch(const Problem& problem, const PlanOnce& plan_once, double factor_max)
      : problem_(problem), plan_once_(plan_once), factor_max_(factor_max) {}

  // The plan, with its factor; infeasible if there is none at any. Goes up from the rates as they are, since planning
  // for low rates is quick, or down if they are too high; then halves what is left between yes and no.
  PlanAnswer run() {
    low_ = std::min(1.0, factor_max_);
    high_ = low_;
    if (try_at(low_)) {
      go_up();
    } else {
      go_down();
    }
    const double step = problem_.options.rule == Rule::certified ? kFactorStepCertified : kFactorStep;
    while (best_.status == PlanStatus::planned && high_ / low_ > step) {
      const double middle = std::sqrt(low_ * high_);
      (try_at(middle) ? low_ : high_) = middle;
    }
    best_.certifications = asked_;
    return std::move(best_);
  }

 private:
  bool try_at(double factor) {
    Problem scaled = problem_;
    scaled.workload = scale_rates(problem_.workload, factor);
    std::optional<LimitedCertifier> limited;
    if (problem_.certifier != nullptr) scaled.certifier = &limited.emplace(*problem_.certifier);
    PlanAnswer answer = with_spare(scaled, plan_once_(scaled));
    if (limited) asked_ += limited->asked();
    answer.headroom = factor;
    const bool planned = answer.status == PlanStatus::planned && all_hold(answer);
    if (planned || best_.status != PlanStatus::planned) best_ = std::move(answer);
    return planned;
  }

  void go_up() {
    while (high_ < factor_max_) {
      high_ = std::min(2 * low_, factor_max_);
      if (!try_at(high_)) return;
      low_ = high_;
    }
  }

  void go_down() {
    while (low_ > kFactorMin) {
      high_ = low_;
      low_ /= 2;
      if (try_at(low_)) return;
    }
  }

  const Problem& problem_;
  const PlanOnce& plan_once_;
  double factor_max_;
  double low_ = 1;   // A factor with a plan, once one was found.
  double high_ = 1;  // One without, or the largest that is looked at.
  PlanAnswer best_;
  std::int64_t asked_ = 0;
};

// Where nothing waits, planning takes no simulation and carries at least as much: a limit from above.
double factor_limit(const Problem& problem, const PlanOnce& plan_once) {
  if (problem.options.rule != Rule::certified) return kFactorMax;
  Problem cheap = problem;
  cheap.options.rule = Rule::no_waiting;
  cheap.budget.progress = {};
  const PlanAnswer answer = FactorSearch(cheap, plan_once, kFactorMax).run();
  return answer.status == PlanStatus::planned ? kFactorStep * answer.headroom : kFactorMax;
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
  PlanAnswer answer = FactorSearch(problem, plan_once, factor_limit(problem, plan_once)).run();
  // Bounds are about the number of devices, which nobody asked for.
  answer.bound = 0;
  answer.proved = false;
  return answer;
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

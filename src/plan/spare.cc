// Plans that keep serving when any one device is lost.
//
// The plan without spares is made first. Its replicas are spread over the devices, so that a loss takes as little as
// possible from each service. Then devices are copied until no loss leaves a service short, and copies that turn out
// to be needless are removed. Plans for raised rates are tried as well, since a fleet with some room everywhere can
// need fewer copies.
//
// Plans with shared slices are judged by sets of services (detail/shared_spare.h) instead of by the covers of each.
//
// Example: three equal devices that are full become four: after a loss, the other three carry everything.

#include "plan/spare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "plan/compose.h"
#include "plan/demand.h"
#include "plan/detail/no_plan.h"
#include "plan/detail/shared_spare.h"
#include "plan/detail/tolerance.h"
#include "plan/explain.h"

namespace tangram::plan {
namespace {

constexpr std::size_t kPrunedUpTo = 64;  // Devices. In larger plans, needless copies are not removed.

// Expresses the devices of a plan as numbers of offers, so that the effect of losing one is a subtraction.
class LossCheck {
 public:
  // `factor`: the plan was made for this many times the rates of the problem.
  LossCheck(const Problem& problem, double factor, const PlanAnswer& answer)
      : problem_(problem), stock_(take_stock(problem)) {
    Problem raised = problem;
    raised.options.demand_factor *= factor;
    for (std::size_t s = 0; s < answer.services.size(); ++s) {
      // The offers are those of the plan, because batch sizes depend on the rate; the rates are those of the problem.
      Demand demand = make_demand(raised, stock_, s, answer.services[s].edges);
      if (!std::holds_alternative<ClosedLoopTraffic>(problem.workload.services[s].traffic)) {
        for (double& rate : demand.rate_per_s) rate /= factor;
        for (double& rate : demand.other_rate_per_s) rate /= factor;
      }
      demands_.push_back(std::move(demand));
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

  // By service: how many slices of each offer the device holds. Each replica counts for the one offer that it equals.
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

  // Adds up the covers of several devices.
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

  // How many services lack capacity when `lost` is taken from `total`, or with `promises` break their Slo. Stops
  // counting at `most`.
  std::size_t short_after(const std::vector<Cover>& total, const std::vector<Cover>& lost, bool promises,
                          std::size_t most) const {
    std::size_t count = 0;
    for (std::size_t s = 0; s < total.size() && count < most; ++s) {
      // A service that has nothing on the lost device is as well off as before.
      if (std::ranges::all_of(lost[s], [](int slices) { return slices == 0; })) continue;
      Cover left = total[s];
      for (std::size_t o = 0; o < left.size(); ++o) left[o] -= lost[s][o];
      if (!carries(demands_[s], left) || (promises && !keeps_promise(s, left))) ++count;
    }
    return count;
  }
  double load_factor(std::size_t s, const Cover& cover) const { return cover_load_factor(services_[s], cover); }
  double rate_per_s(std::size_t s) const {
    return std::accumulate(services_[s].demand.begin(), services_[s].demand.end(), 0.0);
  }

  bool certifies() const { return problem_.options.rule == Rule::certified; }
  Verdict certify(std::size_t s, const Cover& cover) const {
    ++asked_;
    return certify_cover(problem_, stock_, demands_[s], cover, true);
  }
  // Confirmed like a final plan, after a quicker first check that rejects most. Each cover is simulated once: many
  // losses leave the same cover.
  bool keeps_promise(std::size_t s, const Cover& cover) const {
    const auto [known, fresh] = kept_.try_emplace({s, cover}, false);
    if (fresh) {
      ++asked_;
      known->second = certify_cover(problem_, stock_, demands_[s], cover, false).holds && certify(s, cover).holds;
    }
    return known->second;
  }
  std::int64_t asked() const { return asked_; }

  // True if `total` keeps the Slos that `first` keeps. More slices of each offer do so by monotonicity; anything else
  // is certified.
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
  mutable std::map<std::pair<std::size_t, Cover>, bool> kept_;
  mutable std::int64_t asked_ = 0;
};

// Redistributes the replicas over slices of the same kind, so that each service loses as little as possible with any
// one device: every replica goes to the device that holds the fewest of its service.
void spread(Plan& plan) {
  struct Slot {
    std::size_t device = 0;
    std::size_t slice = 0;
  };
  std::map<std::pair<std::string, std::uint16_t>, std::vector<Slot>> slots;
  // What each slice holds moves as a whole: services that share a slice go on sharing.
  std::map<std::pair<std::string, std::uint16_t>, std::vector<std::vector<Replica>>> replicas;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    auto& device = plan.devices[d];
    for (std::size_t i = 0; i < device.slices.size(); ++i) {
      auto& slice = device.slices[i];
      if (slice.reserved) continue;
      const std::pair kind(device.type, slice.slice.profile);
      slots[kind].push_back({d, i});
      if (slice.replicas.empty()) continue;
      replicas[kind].push_back(std::exchange(slice.replicas, {}));
    }
  }
  std::vector<std::map<std::string, int>> held(plan.devices.size());
  for (auto& [kind, waiting] : replicas) {
    auto& free = slots[kind];
    // All replicas of a service in a row, so that they are dealt round the devices.
    const auto first = [](const std::vector<Replica>& held_together) { return held_together.front().service; };
    std::ranges::stable_sort(waiting, {}, first);
    for (auto& held_together : waiting) {
      const std::string service = first(held_together);
      const auto best = std::ranges::min_element(
          free, {}, [&](const Slot& slot) { return std::pair(held[slot.device][service], slot.device); });
      ++held[best->device][service];
      plan.devices[best->device].slices[best->slice].replicas = std::move(held_together);
      free.erase(best);
    }
  }
}

// Numbers the devices of each group from zero, so that copies get names of their own.
void rename(const Fleet& fleet, Plan& plan) {
  std::map<const DeviceGroup*, int> next;
  for (auto& device : plan.devices) {
    const DeviceGroup* group = group_of_device(fleet, device);
    if (group == nullptr) continue;
    device.name = device_name(*group, next[group]++);
  }
}

// The number of devices was not limited while copies were made; this is where the limit of the fleet is checked. Says
// what was found, and not that nothing smaller exists; add_spare() adds what is proved.
std::string why_too_few(const Fleet& fleet, const Plan& plan) {
  for (const auto& group : fleet.groups) {
    const auto used = std::ranges::count_if(
        plan.devices, [&](const PlannedDevice& device) { return group_of_device(fleet, device) == &group; });
    if (!group.count || used <= *group.count) continue;
    return fmt::format(
        "the best plan found that survives the loss of any one device takes {} of {}, but the fleet has {}; add {} or "
        "set spare: none",
        used, group_name(group), *group.count, used - *group.count);
  }
  return {};
}

// The devices of a plan as covers, in the same order.
struct Devices {
  std::vector<std::vector<Cover>> covers;

  // The device whose loss leaves most services short, or covers.size() if none does. Without `count`, the first that
  // leaves any short. Slos are tested only once capacity suffices, because simulations are slow.
  std::size_t worst(const LossCheck& check, bool count = true) const {
    const std::size_t by_capacity = worst(check, count, false);
    return by_capacity < covers.size() || !check.certifies() ? by_capacity : worst(check, count, true);
  }

 private:
  std::size_t worst(const LossCheck& check, bool count, bool promises) const {
    const auto total = check.sum(covers);
    std::size_t worst = covers.size();
    std::size_t most = 0;
    std::set<std::vector<Cover>> seen;
    for (std::size_t d = 0; d < covers.size() && (count || most == 0); ++d) {
      // Equal devices are equally bad to lose.
      if (!seen.insert(covers[d]).second) continue;
      const std::size_t hurt = check.short_after(total, covers[d], promises, count ? total.size() : 1);
      if (hurt > most) worst = d;
      most = std::max(most, hurt);
    }
    return worst;
  }
};

// Copies the device whose loss hurts most until no loss hurts. By capacity a device that has a copy can be lost, so
// each device is copied at most once; randomness in simulations may ask for a few more, up to kCopiesMore. Then
// removes devices that are not needed for capacity and Slos. False if some loss still hurts.
constexpr std::size_t kCopiesMore = 4;

bool add_devices(const LossCheck& check, Plan& plan) {
  Devices devices;
  for (const auto& device : plan.devices) devices.covers.push_back(check.covers_of(device));
  const auto first = check.sum(devices.covers);
  const std::size_t devices_max = 2 * devices.covers.size() + kCopiesMore;
  for (std::size_t d = devices.worst(check); d < devices.covers.size(); d = devices.worst(check)) {
    if (devices.covers.size() == devices_max) return false;
    plan.devices.push_back(plan.devices[d]);
    devices.covers.push_back(devices.covers[d]);
  }
  if (plan.devices.size() > kPrunedUpTo) return true;
  // Backwards, so that the copies at the end are considered before the devices of the plan itself.
  for (std::size_t d = plan.devices.size(); d-- > 0 && plan.devices.size() > 1;) {
    Devices fewer = devices;
    fewer.covers.erase(fewer.covers.begin() + static_cast<std::ptrdiff_t>(d));
    if (fewer.worst(check, false) < fewer.covers.size()) continue;
    if (!check.keeps_promises(first, check.sum(fewer.covers))) continue;
    devices = std::move(fewer);
    plan.devices.erase(plan.devices.begin() + static_cast<std::ptrdiff_t>(d));
  }
  return true;
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

// Certifies every service on the devices that the plan now has. A service that fails gets a copy of the first device
// that serves it, a few times at most. Returns the name of a service that fails in the end, or an empty string.
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

// Updates the counts of replica groups and the load factors after devices were added and removed.
void recount(const LossCheck& check, PlanAnswer& answer) {
  const auto total = covers_of_plan(check, answer.plan);
  for (std::size_t s = 0; s < answer.services.size(); ++s) {
    auto& service = answer.services[s];
    service.rate_per_s = check.rate_per_s(s);
    service.load_factor = check.load_factor(s, total[s]);
    for (auto& group : service.groups) group.count = count_of(answer.plan, group);
    std::erase_if(service.groups, [](const ReplicaGroup& group) { return group.count == 0; });
  }
}

// What became of a plan that was given spare devices.
struct Spared {
  bool survives = false;
  std::string failed = {};  // A service that does not keep its Slo on all devices.
  std::int64_t asked = 0;
};

Spared spare_own_slices(const Problem& problem, double factor, PlanAnswer& answer) {
  const LossCheck check(problem, factor, answer);
  Spared spared{add_devices(check, answer.plan)};
  if (spared.survives) spared.failed = certify_all(check, answer);
  if (spared.survives && spared.failed.empty()) recount(check, answer);
  spared.asked = check.asked();
  return spared;
}

// The plan was made for raised rates; its limits are those of the problem.
void lower_rate_limits(double factor, PlanAnswer& answer) {
  const auto lower = [&](Replica& replica) {
    if (replica.rate_max_per_s) *replica.rate_max_per_s /= factor;
  };
  for (auto& device : answer.plan.devices) {
    for (auto& slice : device.slices) std::ranges::for_each(slice.replicas, lower);
  }
  for (auto& service : answer.services) {
    for (auto& group : service.groups) lower(group.replica);
  }
}

Spared spare_shared_slices(const Problem& problem, double factor, PlanAnswer& answer) {
  lower_rate_limits(factor, answer);
  const detail::SetCheck check(problem, answer);
  Spared spared{detail::add_spare_devices(check, answer.plan)};
  if (spared.survives && check.certifies()) spared.failed = check.certify_all(answer.plan, answer);
  spared.asked = check.asked();
  for (const auto& set : shared_sets(answer.plan)) {
    for (auto& service : answer.services) {
      if (std::ranges::find(set.services, service.service) == set.services.end()) continue;
      service.load_factor = check.load_factor(set);
      for (auto& group : service.groups) group.count = count_of(answer.plan, group);
      std::erase_if(service.groups, [](const ReplicaGroup& group) { return group.count == 0; });
    }
  }
  return spared;
}

// Adds devices to `answer`, which was made for `factor` times the rates, until any one can be lost.
PlanAnswer make_spare(const Problem& problem, double factor, PlanAnswer answer) {
  spread(answer.plan);
  const auto& [survives, failed, more_asked] = detail::has_shared_slices(answer.plan)
                                                   ? spare_shared_slices(problem, factor, answer)
                                                   : spare_own_slices(problem, factor, answer);
  const std::int64_t asked = answer.certifications + more_asked;
  PlanAnswer none;
  if (!survives) {
    none = detail::no_plan("",
                           "no added device keeps the promises when a device is lost; set spare: none, or longer Slos");
  } else if (!failed.empty()) {
    none = detail::no_plan(
        failed, failed + ": the plan with a spare device does not keep its Slo; set spare: none, or a longer Slo");
  } else if (auto reason = why_too_few(problem.fleet, answer.plan); !reason.empty()) {
    none = detail::no_plan("", std::move(reason));
    none.devices = static_cast<int>(answer.plan.devices.size());
  }
  none.certifications = answer.certifications = asked;
  if (!none.reason.empty()) return none;
  rename(problem.fleet, answer.plan);
  answer.price = plan_price(problem, answer.plan);
  answer.devices = static_cast<int>(answer.plan.devices.size());
  return answer;
}

// A plan that survives the loss of its most expensive device is still a plan without it. So no plan with a spare costs
// less than the bound without spares plus the cheapest device.
double spare_bound(const Problem& problem, double bound_bare) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& group : problem.fleet.groups) {
    least = std::min(least, problem.options.objective == Objective::price ? group.price_per_hour : 1.0);
  }
  return bound_bare + least;
}

// What is proved of the devices that a plan with a spare takes, for an answer that found none on the fleet.
std::string proved_text(const Problem& problem, double bound) {
  if (problem.options.objective == Objective::price || bound <= 0) return "; a smaller one is not ruled out";
  const int least = static_cast<int>(std::ceil(bound * (1 - detail::kSumTolerance)));
  int count = 0;
  for (const auto& group : problem.fleet.groups) count += group.count.value_or(std::numeric_limits<int>::max() / 64);
  if (least > count) return fmt::format("; no plan takes fewer than {}", least);
  return fmt::format("; no plan takes fewer than {}, so that one on {} is not ruled out", least, count);
}

bool same_buckets(const PlanAnswer& a, const PlanAnswer& b) {
  return std::ranges::equal(a.services, b.services, {}, &ServicePlan::edges, &ServicePlan::edges);
}

// A plan with room on every device needs fewer copies, and on a limited fleet copies may not be available. So plans
// for higher rates are tried too, while they can still be cheaper.
constexpr double kSpareFactors[] = {1, 1.1, 1.25, 1.5, 1.75, 2, 2.5};

// The cheapest of the plans for some factors, each with its spare devices. `bare` is the plan without them.
PlanAnswer add_spare(const Problem& problem, const PlanOnce& plan_once, const PlanAnswer& bare) {
  const double bound = bare.bound > 0 ? spare_bound(problem, bare.bound) : 0;
  PlanAnswer best;
  std::int64_t asked = 0;
  for (const double factor : kSpareFactors) {
    Problem raised = problem;
    raised.options.demand_factor *= factor;
    PlanAnswer answer = factor == 1 ? bare : plan_once(raised);
    asked += answer.certifications;
    const bool planned = best.status == PlanStatus::planned;
    // Prices are not expected to fall with a larger factor, so once the plan without copies costs as much as the best
    // one, larger factors cannot win.
    if (answer.status != PlanStatus::planned || (planned && answer.price >= best.price * (1 - detail::kSumTolerance)))
      break;
    const std::int64_t before = answer.certifications;
    answer = make_spare(problem, factor, std::move(answer));
    asked += answer.certifications - before;
    const bool better =
        answer.status == PlanStatus::planned && (!planned || answer.price < best.price * (1 - detail::kSumTolerance));
    // Of plans that are too large for the fleet, the smallest is the one to tell about.
    const bool nearer = !planned && answer.devices > 0 && (best.devices == 0 || answer.devices < best.devices);
    if (better || nearer || (!planned && best.reason.empty())) best = std::move(answer);
    if (best.status == PlanStatus::planned && best.price <= bound * (1 + detail::kSumTolerance)) break;
  }
  best.certifications = asked;
  if (best.status != PlanStatus::planned) {
    if (std::exchange(best.devices, 0) > 0) best.reason += proved_text(problem, bound);
    return best;
  }
  best.bound = std::min(bound, best.price);  // The bound is about the buckets of the first plan.
  best.proved = bound > 0 && best.price <= bound * (1 + detail::kSumTolerance) && same_buckets(best, bare);
  return best;
}

}  // namespace

PlanAnswer plan_with_spare(const Problem& problem, const PlanOnce& plan_once) {
  const PlanAnswer bare = plan_once(problem);
  if (bare.status != PlanStatus::planned || problem.fleet.spare != SparePolicy::one_device) return bare;
  if (!bare.with_sharing) return add_spare(problem, plan_once, bare);
  // A plan with slices of one's own may need fewer copies than one that shares; both are made and compared.
  Problem apart = problem;
  apart.options.sharing = Sharing::none;
  PlanAnswer alone = plan_with_spare(apart, plan_once);
  PlanAnswer shared = add_spare(problem, plan_once, bare);
  const bool planned = alone.status == PlanStatus::planned;
  const std::int64_t asked = alone.certifications + shared.certifications;
  std::optional<double> price_alone;
  if (planned) price_alone = alone.price;
  if (planned && (shared.status != PlanStatus::planned || alone.price <= shared.price * (1 + detail::kSumTolerance))) {
    std::swap(shared, alone);
    shared.with_sharing = true;
    shared.binds = bare.binds;
    shared.notes = bare.notes;
    shared.bound = std::min(shared.price, spare_bound(problem, bare.bound));
    shared.proved = shared.price <= shared.bound * (1 + detail::kSumTolerance) && same_buckets(shared, bare);
  }
  shared.price_alone = price_alone;
  shared.certifications = asked;
  return shared;
}

}  // namespace tangram::plan

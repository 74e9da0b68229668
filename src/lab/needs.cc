// Tables of needs: for each service, how many of its slices it must keep at which rate.
//
// Lending has to decide within a tick, so the question "would the promise still hold with one slice less?" is answered
// in advance, by simulation, for ten rates. The slices of a service have a fixed order, and a service always keeps a
// prefix of it: that makes a need a single number, and it makes the tables of all services agree about which devices
// empty first.
//
// Example: a service with four 1g slices planned for 100 requests a second gets rows such as (50, 2), (80, 3), (100,
// 4).

#include "lab/needs.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/check.h"
#include "plan/demand.h"
#include "plan/shared_slices.h"

namespace tangram::lab {
namespace {

// A slice of the plan that runs the service; `places` has an entry for each process on it.
struct NeedCandidate {
  std::size_t device = 0;
  const PlannedSlice* slice = nullptr;
  std::vector<SliceId> places;
  int compute_slices = 0;
};

// True if the rate of the last seconds says what to expect next. After a burst, or in a recording, it does not.
bool may_follow(const Service& service) {
  return std::holds_alternative<PoissonTraffic>(service.traffic) ||
         std::holds_alternative<ConstantTraffic>(service.traffic) ||
         std::holds_alternative<DiurnalTraffic>(service.traffic) ||
         std::holds_alternative<CurveTraffic>(service.traffic);
}

// Each device's position in the order of keeping. Greedy set cover: each next device serves most of the services that
// the devices before do not. Services then agree on few devices, and the last devices fall idle whole. Cost: the square
// of the number of devices, times the services on each.
std::vector<std::size_t> rank_devices(const Plan& plan) {
  std::vector<std::set<std::string>> services(plan.devices.size());
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    for (const auto& slice : plan.devices[d].slices) {
      for (const auto& replica : slice.replicas) services[d].insert(replica.service);
    }
  }
  std::vector<std::size_t> rank(plan.devices.size(), plan.devices.size());
  std::set<std::string> covered;
  for (std::size_t next = 0; next < rank.size(); ++next) {
    std::size_t best = plan.devices.size();
    std::ptrdiff_t best_new = -1;
    for (std::size_t d = 0; d < rank.size(); ++d) {
      if (rank[d] < plan.devices.size()) continue;
      const auto fresh = std::ranges::count_if(services[d], [&](const auto& name) { return !covered.contains(name); });
      // On a tie the earlier device of the plan wins, so the order is the same in every run.
      if (fresh <= best_new) continue;
      best_new = fresh;
      best = d;
    }
    rank[best] = next;
    covered.insert(services[best].begin(), services[best].end());
  }
  return rank;
}

class Tables {
 public:
  Tables(const Plan& plan, const Workload& workload, const sched::Deployment& deployment, const LatencyModel& model,
         const NeedsOptions& options)
      : plan_(plan),
        workload_(workload),
        deployment_(deployment),
        options_(options),
        certifier_(model, options.certify),
        rank_(rank_devices(plan)),
        sets_(plan::shared_sets(plan)),
        levels_(sets_.size()) {
    for (std::uint32_t i = 0; i < deployment.places.size(); ++i) {
      const auto& at = deployment.places[i];
      // Several places of one slice are the processes of its replica; they are lent together.
      places_[{at.device.index(), at.slice.profile, at.slice.start}].push_back(SliceId(i));
    }
  }

  sched::ServiceNeeds of(const Service& service) {
    bool shared = false;
    const auto candidates = candidates_of(service.name, &shared);
    sched::ServiceNeeds needs;
    for (const auto& candidate : candidates) needs.slices.push_back(candidate.places);
    // An empty table means that the service keeps everything. A service with one slice has none to give.
    if (candidates.size() < 2) return needs;
    if (shared) {
      add_shared_needs(service, candidates, needs);
    } else if (may_follow(service)) {
      needs.needs = levels_of(service, candidates);
    }
    return needs;
  }

 private:
  // The slices of a service in the order in which they are kept. Sets `shared` if one of them serves another service,
  // too.
  std::vector<NeedCandidate> candidates_of(const std::string& service, bool* shared) const {
    std::vector<NeedCandidate> candidates;
    for (std::size_t d = 0; d < plan_.devices.size(); ++d) {
      const PlannedDevice& device = plan_.devices[d];
      for (const auto& slice : device.slices) {
        if (std::ranges::find(slice.replicas, service, &Replica::service) == slice.replicas.end()) continue;
        *shared = *shared || slice.replicas.size() > 1;
        candidates.push_back({d, &slice, places_.at({d, slice.slice.profile, slice.slice.start}),
                              device.geometry.profiles[slice.slice.profile].compute_slices});
      }
    }
    std::ranges::stable_sort(candidates, {}, [&](const NeedCandidate& c) {
      const auto rank = static_cast<int>(rank_[c.device]);
      return options_.order == KeepOrder::few_devices ? std::tuple(rank, c.compute_slices)
                                                      : std::tuple(c.compute_slices, rank);
    });
    return candidates;
  }

  // Whether the promise holds on the slices `kept` alone. Requires that each of them has one replica.
  bool holds(const Service& service, std::span<const NeedCandidate> kept) {
    std::vector<plan::ReplicaGroup> groups;
    for (const auto& candidate : kept) {
      const PlannedDevice& device = plan_.devices[candidate.device];
      const std::string& profile = device.geometry.profiles[candidate.slice->slice.profile].name;
      const Replica& replica = candidate.slice->replicas.front();
      const auto same = std::ranges::find_if(groups, [&](const plan::ReplicaGroup& group) {
        return group.device_type == device.type && group.mig_profile == profile && group.replica == replica;
      });
      if (same != groups.end()) {
        ++same->count;
      } else {
        groups.push_back({device.type, profile, candidate.compute_slices, replica, 1});
      }
    }
    // The cheap look first, then the confirmation: a lease relies on this answer as much as a plan does on its own.
    return certifier_.certify(service, groups, false).holds && certifier_.certify(service, groups, true).holds;
  }

  // From the highest rate down. What a rate needs suffices for every lower rate, so each level starts with the slices
  // of the last one and drops slices while the promise holds. That is at most one failed question for each level and
  // one successful question for each slice.
  std::vector<sched::Need> levels_of(const Service& service, const std::vector<NeedCandidate>& candidates) {
    const double rate = plan::planning_rate_per_s(service);
    std::vector<sched::Need> needs;
    std::size_t kept = candidates.size();
    for (int level = options_.levels; level >= 1; --level) {
      Service at_level = service;
      at_level.traffic = PoissonTraffic{rate * level / options_.levels};
      while (kept > 1 && holds(at_level, std::span(candidates).first(kept - 1))) --kept;
      needs.push_back({rate * level / options_.levels, kept});
    }
    std::ranges::reverse(needs);
    return needs;
  }

  const Service& service_named(const std::string& name) const {
    return *std::ranges::find(workload_.services, name, &Service::name);
  }

  // True if every slice of the set holds every service of it, and the rates of all can be followed.
  bool can_lend(const plan::SharedSet& set) const {
    const auto holds_all = [&](const plan::SharedGroup& group) { return group.replicas.size() == set.services.size(); };
    return std::ranges::all_of(set.groups, holds_all) &&
           std::ranges::all_of(set.services, [&](const std::string& name) { return may_follow(service_named(name)); });
  }

  // Whether all promises of a set hold on the slices `kept` alone, at so many levels of all rates.
  bool hold_together(const plan::SharedSet& set, std::span<const NeedCandidate> kept, int level) {
    std::vector<Service> services;
    for (const auto& name : set.services) {
      services.push_back(service_named(name));
      services.back().traffic = PoissonTraffic{plan::planning_rate_per_s(services.back()) * level / options_.levels};
    }
    plan::SharedSet left{set.services, {}};
    for (const auto& candidate : kept) {
      const PlannedDevice& device = plan_.devices[candidate.device];
      const std::string& profile = device.geometry.profiles[candidate.slice->slice.profile].name;
      const auto same = std::ranges::find_if(left.groups, [&](const plan::SharedGroup& group) {
        return group.device_type == device.type && group.mig_profile == profile &&
               group.replicas == candidate.slice->replicas;
      });
      if (same != left.groups.end()) {
        ++same->count;
      } else {
        left.groups.push_back({device.type, profile, candidate.compute_slices, candidate.slice->replicas, 1});
      }
    }
    const auto all_hold = [&](bool confirm) {
      return std::ranges::all_of(certifier_.certify_together(services, left.groups, confirm), &plan::Verdict::holds);
    };
    return all_hold(false) && all_hold(true);
  }

  // The slices that a set keeps, by level, made once for all its services.
  const std::vector<std::size_t>& levels_of_set(std::size_t index, const std::vector<NeedCandidate>& candidates) {
    auto& levels = levels_[index];
    if (!levels.empty()) return levels;
    std::size_t kept = candidates.size();
    for (int level = options_.levels; level >= 1; --level) {
      while (kept > 1 && hold_together(sets_[index], std::span(candidates).first(kept - 1), level)) --kept;
      levels.push_back(kept);
    }
    std::ranges::reverse(levels);
    return levels;
  }

  // The same table for all services of a set, each in its own rates.
  void add_shared_needs(const Service& service, const std::vector<NeedCandidate>& candidates,
                        sched::ServiceNeeds& needs) {
    const auto set = std::ranges::find_if(sets_, [&](const plan::SharedSet& s) {
      return std::ranges::find(s.services, service.name) != s.services.end();
    });
    if (!can_lend(*set)) return;
    const auto& levels = levels_of_set(static_cast<std::size_t>(set - sets_.begin()), candidates);
    const double rate = plan::planning_rate_per_s(service);
    for (std::size_t i = 0; i < levels.size(); ++i) {
      needs.needs.push_back({rate * static_cast<double>(i + 1) / options_.levels, levels[i]});
    }
    for (std::uint32_t s = 0; s < workload_.services.size(); ++s) {
      const Service& sharer = workload_.services[s];
      if (std::ranges::find(set->services, sharer.name) == set->services.end()) continue;
      needs.sharers.push_back({ServiceId(s), request_s(sharer, ServiceId(s))});
    }
  }

  // How much time of a slice a request takes on average.
  double request_s(const Service& service, ServiceId id) const {
    return power_of(deployment_, sched::queue_of(deployment_, id), plan::size_shares(service),
                    plan::samples_mean(service))
        .request_s;
  }

  const Plan& plan_;
  const Workload& workload_;
  const sched::Deployment& deployment_;
  const NeedsOptions& options_;
  SimulatedCertifier certifier_;
  std::vector<std::size_t> rank_;
  std::map<std::tuple<std::size_t, std::uint16_t, std::uint16_t>, std::vector<SliceId>> places_;
  std::vector<plan::SharedSet> sets_;
  std::vector<std::vector<std::size_t>> levels_;  // By set that shares; see levels_of_set().
};

}  // namespace

std::vector<sched::ServiceNeeds> certified_needs(const Plan& plan, const Workload& workload,
                                                 const sched::Deployment& deployment, const LatencyModel& model,
                                                 const NeedsOptions& options) {
  Tables tables(plan, workload, deployment, model, options);
  std::vector<sched::ServiceNeeds> needs;
  for (const auto& service : workload.services) needs.push_back(tables.of(service));
  return needs;
}

}  // namespace tangram::lab

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
  Tables(const Plan& plan, const sched::Deployment& deployment, const LatencyModel& model, const NeedsOptions& options)
      : plan_(plan), options_(options), certifier_(model, options.certify), rank_(rank_devices(plan)) {
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
    // An empty table means that the service keeps everything. A shared slice cannot be given up for one service alone,
    // and a service with one slice has none to give.
    if (!shared && may_follow(service) && candidates.size() > 1) needs.needs = levels_of(service, candidates);
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

  const Plan& plan_;
  const NeedsOptions& options_;
  SimulatedCertifier certifier_;
  std::vector<std::size_t> rank_;
  std::map<std::tuple<std::size_t, std::uint16_t, std::uint16_t>, std::vector<SliceId>> places_;
};

}  // namespace

std::vector<sched::ServiceNeeds> certified_needs(const Plan& plan, const Workload& workload,
                                                 const sched::Deployment& deployment, const LatencyModel& model,
                                                 const NeedsOptions& options) {
  Tables tables(plan, deployment, model, options);
  std::vector<sched::ServiceNeeds> needs;
  for (const auto& service : workload.services) needs.push_back(tables.of(service));
  return needs;
}

}  // namespace tangram::lab

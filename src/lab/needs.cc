#include "lab/needs.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/check.h"
#include "plan/demand.h"

namespace tangram::lab {
namespace {

// A slice of the plan with one replica.
struct NeedCandidate {
  std::size_t device = 0;
  const PlannedSlice* slice = nullptr;
  std::vector<SliceId> places;
  int compute_slices = 0;
};

bool may_follow(const Service& service) {
  return std::holds_alternative<PoissonTraffic>(service.traffic) ||
         std::holds_alternative<ConstantTraffic>(service.traffic) ||
         std::holds_alternative<DiurnalTraffic>(service.traffic) ||
         std::holds_alternative<CurveTraffic>(service.traffic);
}

// Devices in the order in which they are kept: each next one serves most services that those before do not.
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
      places_[{at.device.index(), at.slice.profile, at.slice.start}].push_back(SliceId(i));
    }
  }

  sched::ServiceNeeds of(const Service& service) {
    bool shared = false;
    const auto candidates = candidates_of(service.name, &shared);
    sched::ServiceNeeds needs;
    for (const auto& candidate : candidates) needs.slices.push_back(candidate.places);
    if (!shared && may_follow(service) && candidates.size() > 1) needs.needs = levels_of(service, candidates);
    return needs;
  }

 private:
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
    // What a loan relies on is confirmed as what a plan relies on is.
    return certifier_.certify(service, groups, false).holds && certifier_.certify(service, groups, true).holds;
  }

  // From the highest rate down: what a rate needs suffices for every lower one, so that each is tried with one slice
  // less than the last, and with fewer while that holds.
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

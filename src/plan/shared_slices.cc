// Finds the sets by joining services along the slices that hold several of them.

#include "plan/shared_slices.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/check.h"
#include "plan/demand.h"

namespace tangram::plan {
namespace {

// Services as a forest: those of one tree are connected.
class Connected {
 public:
  std::size_t index_of(const std::string& service) {
    const auto [found, is_new] = index_.try_emplace(service, parent_.size());
    if (is_new) parent_.push_back(found->second);
    return found->second;
  }
  std::size_t root(std::size_t s) const {
    while (parent_[s] != s) s = parent_[s];
    return s;
  }
  // The smaller root stays, so that a set is named by its first service.
  void join(std::size_t a, std::size_t b) {
    a = root(a);
    b = root(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::map<std::string, std::size_t> index_;
  std::vector<std::size_t> parent_;
};

void add_slice(SharedSet& set, const PlannedDevice& device, const PlannedSlice& slice) {
  const MigProfile& profile = device.geometry.profiles[slice.slice.profile];
  for (const auto& replica : slice.replicas) {
    if (std::ranges::find(set.services, replica.service) == set.services.end()) set.services.push_back(replica.service);
  }
  const auto same = std::ranges::find_if(set.groups, [&](const SharedGroup& group) {
    return group.device_type == device.type && group.mig_profile == profile.name && group.replicas == slice.replicas;
  });
  if (same != set.groups.end()) {
    ++same->count;
  } else {
    set.groups.push_back({device.type, profile.name, profile.compute_slices, slice.replicas, 1});
  }
}

Verdict worse_of(const Verdict& a, const Verdict& b) {
  if (a.holds != b.holds) return a.holds ? b : a;
  return a.attainment <= b.attainment ? a : b;
}

std::vector<Verdict> ask_about(Certifier& certifier, const std::vector<Service>& services, const SharedSet& set,
                         bool confirm) {
  if (services.size() > 1) return certifier.certify_together(services, set.groups, confirm);
  std::vector<ReplicaGroup> groups;
  for (const auto& group : set.groups) {
    groups.push_back({group.device_type, group.mig_profile, group.compute_slices, group.replicas[0], group.count});
  }
  return {certifier.certify(services[0], groups, confirm)};
}

}  // namespace

std::vector<SharedSet> shared_sets(const Plan& plan) {
  Connected connected;
  for (const auto& device : plan.devices) {
    for (const auto& slice : device.slices) {
      for (const auto& replica : slice.replicas) {
        connected.join(connected.index_of(slice.replicas[0].service), connected.index_of(replica.service));
      }
    }
  }
  std::vector<SharedSet> sets;
  std::map<std::size_t, std::size_t> set_of;  // By root.
  for (const auto& device : plan.devices) {
    for (const auto& slice : device.slices) {
      if (slice.replicas.empty()) continue;
      const std::size_t root = connected.root(connected.index_of(slice.replicas[0].service));
      const auto [found, is_new] = set_of.try_emplace(root, sets.size());
      if (is_new) sets.emplace_back();
      add_slice(sets[found->second], device, slice);
    }
  }
  return sets;
}

int slices_in(const SharedSet& set) {
  return std::accumulate(set.groups.begin(), set.groups.end(), 0,
                         [](int sum, const SharedGroup& group) { return sum + group.count; });
}

std::vector<Verdict> certify_set(Certifier& certifier, const Workload& workload, const SharedSet& set, bool confirm) {
  std::vector<Service> services;
  for (const auto& name : set.services) {
    const auto found = std::ranges::find(workload.services, name, &Service::name);
    TANGRAM_CHECK(found != workload.services.end(), "a service of a plan is in the workload");
    services.push_back(*found);
  }
  if (std::ranges::none_of(services, [](const Service& s) { return s.size_drift.has_value(); })) {
    return ask_about(certifier, services, set, confirm);
  }
  std::vector<Service> after;
  for (auto& service : services) {
    after.push_back(after_drift(service));
    service = before_drift(std::move(service));
  }
  auto verdicts = ask_about(certifier, services, set, confirm);
  const auto others = ask_about(certifier, after, set, confirm);
  for (std::size_t i = 0; i < verdicts.size(); ++i) verdicts[i] = worse_of(verdicts[i], others[i]);
  return verdicts;
}

}  // namespace tangram::plan

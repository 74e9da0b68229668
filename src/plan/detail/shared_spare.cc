// Adds spare devices to plans with shared slices, as spare.cc does by covers of single services.
//
// Services that share slices stand or fall together, so everything is asked about sets: which are left without a
// device, and whether each of them still keeps its promises.

#include "plan/detail/shared_spare.h"

#include <algorithm>
#include <limits>
#include <set>

#include "plan/demand.h"
#include "plan/detail/tolerance.h"

namespace tangram::plan::detail {
namespace {

constexpr std::size_t kSharedCopiesMore = 4;   // As in spare.cc: chance in simulations may ask for a few more.
constexpr std::size_t kSharedPrunedUpTo = 64;  // Devices. In larger plans, needless copies are not removed.

std::size_t index_in(const Workload& workload, const std::string& service) {
  return static_cast<std::size_t>(std::ranges::find(workload.services, service, &Service::name) -
                                  workload.services.begin());
}

std::set<std::string> services_on(const PlannedDevice& device) {
  std::set<std::string> names;
  for (const auto& slice : device.slices) {
    for (const auto& replica : slice.replicas) names.insert(replica.service);
  }
  return names;
}

Plan without_device(Plan plan, std::size_t device) {
  plan.devices.erase(plan.devices.begin() + static_cast<std::ptrdiff_t>(device));
  return plan;
}

// The device whose loss leaves most services short, or the number of devices if none does. Without `count`, the first
// that leaves any short. Capacity first: simulations are slow.
std::size_t worst_loss(const SetCheck& check, const Plan& plan, bool count) {
  for (const bool promises : {false, true}) {
    if (promises && !check.certifies()) break;
    std::size_t worst = plan.devices.size();
    std::size_t most = 0;
    for (std::size_t d = 0; d < plan.devices.size() && (count || most == 0); ++d) {
      // Equal devices are equally bad to lose.
      const auto equal = std::ranges::find(plan.devices, plan.devices[d].slices, &PlannedDevice::slices);
      if (static_cast<std::size_t>(equal - plan.devices.begin()) < d) continue;
      const std::size_t hurt =
          check.short_without(plan, d, promises, count ? std::numeric_limits<std::size_t>::max() : 1);
      if (hurt > most) worst = d;
      most = std::max(most, hurt);
    }
    if (most > 0) return worst;
  }
  return plan.devices.size();
}

}  // namespace

bool has_shared_slices(const Plan& plan) {
  return std::ranges::any_of(plan.devices, [](const PlannedDevice& device) {
    return std::ranges::any_of(device.slices, [](const PlannedSlice& slice) { return slice.replicas.size() > 1; });
  });
}

SetCheck::SetCheck(const Problem& problem, const PlanAnswer& answer) : problem_(problem) {
  const Stock stock = take_stock(problem);
  for (std::size_t s = 0; s < answer.services.size(); ++s) {
    edges_.push_back(answer.services[s].edges);
    rates_.push_back(make_demand(problem, stock, s, edges_.back()).rate_per_s);
  }
}

double SetCheck::load_factor(const SharedSet& set) const {
  CoverService service;
  std::vector<std::size_t> first_class;  // By service of the set.
  for (const auto& name : set.services) {
    const auto& rates = rates_[index_in(problem_.workload, name)];
    first_class.push_back(service.demand.size());
    service.demand.insert(service.demand.end(), rates.begin(), rates.end());
  }
  Cover cover;
  for (const auto& group : set.groups) {
    CoverOffer offer{service.offers.size(), std::vector<double>(service.demand.size(), 0)};
    for (const auto& replica : group.replicas) {
      const auto at = static_cast<std::size_t>(std::ranges::find(set.services, replica.service) - set.services.begin());
      const std::size_t s = index_in(problem_.workload, replica.service);
      for (const auto& bucket : replica.buckets) {
        const auto run =
            problem_.latency->predict({group.device_type, group.mig_profile, problem_.workload.services[s].model,
                                       bucket.batch_size, bucket.size_max, replica.processes});
        const auto edge = std::ranges::find(edges_[s], bucket.size_max);
        if (!run || edge == edges_[s].end()) continue;
        offer.rate[first_class[at] + static_cast<std::size_t>(edge - edges_[s].begin())] =
            static_cast<double>(bucket.batch_size) * replica.processes / to_seconds(run->mean);
      }
    }
    service.offers.push_back(std::move(offer));
    cover.push_back(group.count);
  }
  return cover_load_factor(service, cover);
}

bool SetCheck::keeps_promises(const SharedSet& set) const {
  const auto all_hold = [](const std::vector<Verdict>& verdicts) {
    return std::ranges::all_of(verdicts, [](const Verdict& verdict) { return verdict.holds; });
  };
  if (!set.shares() && problem_.workload.services[index_in(problem_.workload, set.services[0])].job) return true;
  // A look rejects most of what does not hold; what passes is confirmed like a final plan.
  asked_ += 2;
  return all_hold(certify_set(*problem_.certifier, problem_.workload, set, false)) &&
         all_hold(certify_set(*problem_.certifier, problem_.workload, set, true));
}

std::size_t SetCheck::short_without(const Plan& plan, std::size_t lost, bool promises, std::size_t most) const {
  std::set<std::string> touched = services_on(plan.devices[lost]);
  std::size_t count = 0;
  for (const auto& set : shared_sets(without_device(plan, lost))) {
    const bool hit = std::ranges::any_of(set.services, [&](const std::string& name) { return touched.contains(name); });
    for (const auto& name : set.services) touched.erase(name);
    if (!hit || count >= most) continue;
    const bool carried = load_factor(set) >= 1 - kSumTolerance;
    if (!carried || (promises && !keeps_promises(set))) count += set.services.size();
  }
  return count + touched.size();  // Who is left over has no slice.
}

std::string SetCheck::certify_all(const Plan& plan, PlanAnswer& answer) const {
  std::string failed;
  for (const auto& set : shared_sets(plan)) {
    const std::size_t first = index_in(problem_.workload, set.services[0]);
    if (!set.shares() && problem_.workload.services[first].job) continue;
    ++asked_;
    const auto verdicts = certify_set(*problem_.certifier, problem_.workload, set, true);
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      answer.services[index_in(problem_.workload, set.services[i])].verdict = verdicts[i];
      if (!verdicts[i].holds) failed = set.services[i];
    }
  }
  return failed;
}

bool add_spare_devices(const SetCheck& check, Plan& plan) {
  const std::size_t devices_max = 2 * plan.devices.size() + kSharedCopiesMore;
  for (std::size_t d = worst_loss(check, plan, true); d < plan.devices.size(); d = worst_loss(check, plan, true)) {
    if (plan.devices.size() == devices_max) return false;
    plan.devices.push_back(plan.devices[d]);
  }
  if (plan.devices.size() > kSharedPrunedUpTo) return true;
  // Backwards, so that copies are considered before the devices of the plan itself. What survives the loss of any one
  // device keeps all promises with all of them.
  for (std::size_t d = plan.devices.size(); d-- > 0 && plan.devices.size() > 1;) {
    const Plan fewer = without_device(plan, d);
    if (worst_loss(check, fewer, false) == fewer.devices.size()) plan = fewer;
  }
  return true;
}

}  // namespace tangram::plan::detail

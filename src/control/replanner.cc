// From demands to a plan that differs little from the running one.
//
// Three steps: the planner answers which slices are needed, plan::diff gives the roles to devices so that few slices
// move, and make_before_break moves what must be recut to free devices. Example: if a device must go from 7 x 1g to 1 x
// 7g and the fleet has a free device, the new slice is created there, and the old ones serve until it is ready.
//
// Invariant: `current_` changes only when a complete new plan has been compiled, so a failure leaves the running plan
// as it is.

#include "control/replanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "core/plan.h"
#include "plan/replan.h"

namespace tangram::control {
namespace {

// A share of requests that is always planned for at the longest size. Without it an hour without long requests would
// give a plan whose largest bucket is too small for the next long one.
constexpr double kLongestShare = 1e-6;

// The observed sizes as a histogram, with the longest one always present; see kLongestShare.
HistogramSize histogram_of(SizeCounts mix, std::int64_t longest) {
  double total = 0;
  for (const auto& [size, count] : mix) total += count;
  mix[longest] += kLongestShare * std::max(total, 1.0);
  HistogramSize histogram;
  for (const auto& [size, count] : mix) histogram.bins.push_back({size, count});
  return histogram;
}

// The lengths of bursts are exponential: one in a hundred is longer than this many times the mean, ln(100).
constexpr double kLongBurst = 4.6;

// What bursts of `bursts` need under a rule that plans without simulating: enough that the last request of a long burst
// is answered in time. A burst of L seconds at rate B may be worked off in L and half of the Slo, the half that the
// rule leaves for waiting. Example: bursts of 10 s at 178/s with an Slo of 1 s need 178 * 46 / 46.5 = 176/s; bursts of
// 50 ms need 178 * 0.23 / 0.73 = 56/s.
double rate_for_bursts(const BurstTraffic& bursts, const Slo& slo) {
  const double length = kLongBurst * bursts.burst_mean_s;
  return std::max(bursts.rate_per_s, burst_rate_per_s(bursts) * length / (length + to_seconds(slo.latency) / 2));
}

// The traffic to plan for when a service has a mean of `rate_per_s`. A plan is for a window in which the mean rate is
// constant; drift is met by the next plan. Bursts are part of that window: the services file has their shape.
Traffic traffic_at(const Service& service, double rate_per_s, plan::Rule rule) {
  const auto* shape = std::get_if<BurstTraffic>(&service.traffic);
  if (shape == nullptr) return PoissonTraffic{rate_per_s};
  BurstTraffic bursts = *shape;
  bursts.rate_per_s = rate_per_s;
  // A certifier simulates the bursts. The other rules know only a rate.
  if (rule == plan::Rule::certified) return bursts;
  return PoissonTraffic{rate_for_bursts(bursts, service.slo)};
}

// True if the replicas are the same but for the limits of their rates, which change without a load or a restart.
bool same_but_limits(std::vector<Replica> a, std::vector<Replica> b) {
  for (auto& replica : a) replica.rate_max_per_s.reset();
  for (auto& replica : b) replica.rate_max_per_s.reset();
  return a == b;
}

int compute_slices_used(const Plan& plan) {
  int count = 0;
  for (const auto& device : plan.devices) {
    for (const auto& slice : device.slices) {
      if (!slice.replicas.empty()) count += device.geometry.profiles[slice.slice.profile].compute_slices;
    }
  }
  return count;
}

// On how many slices each service is.
using Counts = std::map<std::string, int>;

void count_services(const std::vector<Replica>& replicas, Counts& counts) {
  for (const auto& replica : replicas) ++counts[replica.service];
}

bool stays(const plan::SliceDifference& slice) {
  const bool there = slice.change == plan::SliceChange::kept || slice.change == plan::SliceChange::changed;
  return there && !slice.after.empty() && same_but_limits(slice.before, slice.after);
}

// On how many slices a service is certain to be served while the plan moves: those that stay, and those of devices that
// only gain slices, which are cut first.
Counts safe_slices(const plan::Difference& difference) {
  Counts safe;
  for (const auto& device : difference.devices) {
    const bool only_gains =
        std::ranges::all_of(device.slices, [](const auto& slice) { return slice.before.empty() || stays(slice); });
    for (const auto& slice : device.slices) {
      if (stays(slice) || only_gains) count_services(slice.after, safe);
    }
  }
  return safe;
}

// The services that have all of their slices on this device, and all of them change: they would not be served
// meanwhile.
std::set<std::string> interrupted_services(const plan::DeviceDifference& device, const Counts& safe) {
  Counts after;
  for (const auto& slice : device.slices) count_services(slice.after, after);
  std::set<std::string> interrupted;
  for (const auto& slice : device.slices) {
    if (stays(slice)) continue;
    for (const auto& replica : slice.before) {
      const bool served_after = after.contains(replica.service);
      if (served_after && !safe.contains(replica.service)) interrupted.insert(replica.service);
    }
  }
  return interrupted;
}

// True if some slice of the device keeps its replicas: then the device serves throughout and stays where it is.
bool keeps_a_replica(const plan::DeviceDifference& device) { return std::ranges::any_of(device.slices, stays); }

}  // namespace

bool is_better_replaced(const plan::Difference& difference, const plan::DeviceDifference& device) {
  // Nothing to protect: it had no slices, or keeps serving everything that it serves.
  if (device.before.slices.empty()) return false;
  return !keeps_a_replica(device) || !interrupted_services(device, safe_slices(difference)).empty();
}

void place_elsewhere(const plan::Difference& difference, const Fleet& fleet, const std::string& device, Plan& target) {
  const auto difference_of = [&](const std::string& name) {
    return std::ranges::find_if(difference.devices, [&](const auto& entry) { return entry.after.name == name; });
  };
  const auto from = std::ranges::find(target.devices, device, &PlannedDevice::name);
  const auto changed = difference_of(device);
  if (from == target.devices.end() || changed == difference.devices.end()) return;
  const std::set<std::string> interrupted = interrupted_services(*changed, safe_slices(difference));
  // Room before and after: the other device gains the slice while all of its own serve.
  const auto give = [&](const PlannedSlice& slice) {
    for (auto& other : target.devices) {
      const auto its = difference_of(other.name);
      if (&other == &*from || its == difference.devices.end() || its->before.slices.empty()) continue;
      if (other.type != from->type || plan::group_of_device(fleet, other) != plan::group_of_device(fleet, *from))
        continue;
      if (!std::ranges::all_of(its->slices, [](const auto& s) { return s.before.empty() || stays(s); })) continue;
      for (const int start : other.geometry.profiles[slice.slice.profile].starts) {
        const Slice there{slice.slice.profile, static_cast<std::uint16_t>(start)};
        const bool room = fits(other.geometry, layout_of(other), there);
        if (!room || !fits(other.geometry, layout_of(its->before), there)) continue;
        other.slices.push_back(slice);
        other.slices.back().slice = there;
        std::ranges::sort(other.slices, {}, [](const PlannedSlice& s) { return s.slice.start; });
        return true;
      }
    }
    return false;
  };
  std::erase_if(from->slices, [&](const PlannedSlice& slice) {
    const bool needed = std::ranges::any_of(
        slice.replicas, [&](const Replica& replica) { return interrupted.contains(replica.service); });
    return needed && give(slice);
  });
}

Result<std::optional<NewPlan>> Replanner::plan(const std::vector<ServiceDemand>& demand,
                                               const std::vector<bool>& remixed) {
  const plan::Problem problem = problem_for(demand);
  plan::PlanAnswer answer;
  bool from_scratch = true;
  const bool keeps = std::ranges::none_of(lost_, [&](const std::string& name) { return uses(name); });
  if (current_ && keeps) {
    plan::Replanned anew = plan::replan(problem, previous_without(remixed));
    answer = std::move(anew.answer);
    from_scratch = anew.from_scratch;
    if (auto fewer = on_fewer_cores(problem, answer)) {
      answer = std::move(*fewer);
      from_scratch = true;
    }
  } else {
    answer = plan_anew(problem);
  }
  if (answer.status != plan::PlanStatus::planned) {
    reason_ = answer.reason;
    return std::optional<NewPlan>{};
  }
  return adopt(std::move(answer), from_scratch);
}

void Replanner::set_roster(sched::Roster roster) {
  problem_.workload = std::move(roster.workload);
  removed_ = std::move(roster.removed);
}

std::optional<plan::PlanAnswer> Replanner::on_fewer_cores(const plan::Problem& problem,
                                                          const plan::PlanAnswer& answer) const {
  const bool hosts =
      std::ranges::all_of(problem.fleet.groups, [](const DeviceGroup& group) { return group.host.has_value(); });
  if (!hosts || answer.status != plan::PlanStatus::planned) return std::nullopt;
  auto anew = plan_anew(problem);
  if (anew.status != plan::PlanStatus::planned || anew.devices > answer.devices) return std::nullopt;
  if (compute_slices_used(anew.plan) >= compute_slices_used(answer.plan)) return std::nullopt;
  return anew;
}

void Replanner::set_lost(std::set<std::string> devices) { lost_ = std::move(devices); }

bool Replanner::uses(const std::string& device) const {
  return current_ && std::ranges::any_of(current_->plan.devices, [&](const PlannedDevice& planned) {
           return planned.name == device && std::ranges::any_of(planned.slices, [](const PlannedSlice& slice) {
                    return !slice.replicas.empty();
                  });
         });
}

plan::PlanAnswer Replanner::plan_anew(plan::Problem problem) const {
  const auto planner = plan::find_planner("elastic")->make();
  auto answer = planner->plan(problem);
  // The spare is for this.
  if (answer.status == plan::PlanStatus::planned || lost_.empty() || problem.fleet.spare == SparePolicy::none) {
    return answer;
  }
  problem.fleet.spare = SparePolicy::none;
  return planner->plan(problem);
}

Fleet Replanner::fleet_left() const {
  Fleet fleet = problem_.fleet;
  for (auto& group : fleet.groups) {
    if (!group.count) continue;  // There are always more of it.
    const auto gone =
        std::ranges::count_if(lost_, [&](const std::string& name) { return device_number(group, name).has_value(); });
    *group.count -= static_cast<int>(gone);
  }
  std::erase_if(fleet.groups, [](const DeviceGroup& group) { return group.count == 0; });
  return fleet;
}

void Replanner::avoid_lost(Plan& target) const {
  std::set<std::string> taken = lost_;
  for (const auto& device : target.devices) taken.insert(device.name);
  // Devices of the running plan are left alone even if the next one does not use them: they may still be draining.
  for (const auto& device : current_ ? current_->plan.devices : std::vector<PlannedDevice>{}) taken.insert(device.name);
  for (auto& device : target.devices) {
    if (!lost_.contains(device.name)) continue;
    std::string name = free_name(device, taken);
    // All others are draining: one of them will do, as the move waits until it is free.
    if (name.empty()) {
      taken = lost_;
      for (const auto& other : target.devices) taken.insert(other.name);
      name = free_name(device, taken);
    }
    if (name.empty()) continue;
    taken.insert(name);
    device.name = std::move(name);
  }
}

Service steady_service(const Service& service, const ServiceDemand& demand) {
  Service steady = service;
  const std::int64_t longest = largest_size(steady);
  steady.traffic = traffic_at(service, demand.rate_per_s, plan::Rule::certified);
  steady.size_drift.reset();
  steady.input_size = histogram_of(demand.mix, longest);
  return steady;
}

plan::Problem Replanner::problem_for(const std::vector<ServiceDemand>& demand) const {
  plan::Problem problem = problem_;
  problem.fleet = fleet_left();
  problem.workload.services.clear();
  for (std::size_t s = 0; s < demand.size(); ++s) {
    if (removed_[s]) continue;
    Service& service = problem.workload.services.emplace_back(steady_service(services()[s], demand[s]));
    service.traffic = traffic_at(services()[s], demand[s].rate_per_s, problem.options.rule);
  }
  return problem;
}

plan::PlanAnswer Replanner::previous_without(const std::vector<bool>& remixed) const {
  plan::PlanAnswer previous = *current_;
  // A service that the previous plan does not have is planned like a new one, buckets included.
  std::erase_if(previous.services, [&](const plan::ServicePlan& service) {
    for (std::size_t s = 0; s < remixed.size(); ++s) {
      if ((remixed[s] || removed_[s]) && services()[s].name == service.service) return true;
    }
    return false;
  });
  return previous;
}

Result<std::optional<NewPlan>> Replanner::adopt(plan::PlanAnswer answer, bool from_scratch) {
  TANGRAM_TRY(const auto difference, plan::diff(current_ ? current_->plan : Plan{}, answer.plan));
  answer.plan = difference.target;
  // The first plan has nothing to keep running.
  if (current_) make_before_break(difference, answer.plan);
  avoid_lost(answer.plan);
  NewPlan made;
  made.step = step_between(current_ ? current_->plan : Plan{}, answer.plan);
  made.step.from_scratch = from_scratch;
  TANGRAM_TRY(auto deployment, sched::compile(answer.plan, problem_.workload, *problem_.latency));
  made.deployment = std::move(deployment);
  made.answer = answer;
  current_ = std::move(answer);
  return std::optional(std::move(made));
}

void Replanner::make_before_break(const plan::Difference& difference, Plan& target) const {
  // Names in use by either plan: the old slices still run while the new ones start.
  std::set<std::string> taken = lost_;
  for (const auto& device : difference.devices) taken.insert(device.before.name);
  for (const auto& device : target.devices) taken.insert(device.name);
  for (auto& device : target.devices) {
    const auto role =
        std::ranges::find_if(difference.devices, [&](const auto& entry) { return entry.after.name == device.name; });
    if (role == difference.devices.end() || !is_better_replaced(difference, *role)) continue;
    if (const auto name = free_name(device, taken); !name.empty()) {
      taken.insert(name);
      device.name = name;
    } else if (problem_.fleet.spare == SparePolicy::none) {
      // A plan with a spare holds whichever device is lost only with its slices where it has them.
      place_elsewhere(difference, problem_.fleet, device.name, target);
    }
  }
}

std::string Replanner::free_name(const PlannedDevice& device, const std::set<std::string>& taken) const {
  const DeviceGroup* own = plan::group_of_device(problem_.fleet, device);
  const bool priced = problem_.options.objective == plan::Objective::price;
  for (const auto& group : problem_.fleet.groups) {
    if (group.type != device.type) continue;
    // Where others use slices of a device, or where it costs more, it is no equal.
    if (own != nullptr && group.reserved != own->reserved) continue;
    if (own != nullptr && priced && group.price_per_hour > own->price_per_hour) continue;
    // Of a group without a limit, one name more than are taken is free for certain.
    const int most = group.count.value_or(static_cast<int>(taken.size()) + 1);
    for (int i = 0; i < most; ++i) {
      std::string name = device_name(group, i);
      if (!taken.contains(name)) return name;
    }
  }
  return {};
}

PlanStep step_between(const Plan& from, const Plan& target) {
  std::map<std::string, const PlannedDevice*> before;
  for (const auto& device : from.devices) before[device.name] = &device;
  PlanStep step;
  for (const auto& device : target.devices) {
    bool used = false;
    const PlannedDevice* old = before.contains(device.name) ? before.at(device.name) : nullptr;
    for (const auto& slice : device.slices) {
      if (slice.replicas.empty()) continue;
      used = true;
      step.compute_slices += device.geometry.profiles[slice.slice.profile].compute_slices;
      // A slice that is the same in place and replicas needs no load.
      const bool same = old != nullptr && std::ranges::any_of(old->slices, [&](const PlannedSlice& before_it) {
                          return before_it.slice == slice.slice && same_but_limits(before_it.replicas, slice.replicas);
                        });
      if (!same) ++step.replicas_loaded;
    }
    step.devices += used ? 1 : 0;
    step.devices_recut += old != nullptr && !old->slices.empty() && layout_of(*old) != layout_of(device) ? 1 : 0;
  }
  return step;
}

}  // namespace tangram::control

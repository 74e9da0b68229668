// Explains a plan: what each service costs, what a longer Slo would save, and why fewer devices do not suffice.
//
// Explanations come from the bound. The bound's price of a service says how much of the total that service is
// responsible for, so the services that make up most of it are the ones to change.

#include "plan/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/text.h"

namespace tangram::plan {
namespace {

// The price of one device in the unit of the objective. A device under a foreign name gets the price of the first
// group of its type.
double price_of(const Problem& problem, const PlannedDevice& device) {
  if (problem.options.objective != Objective::price) return 1;
  if (const DeviceGroup* own = group_of_device(problem.fleet, device)) return own->price_per_hour;
  for (const auto& group : problem.fleet.groups) {
    if (group.type == device.type) return group.price_per_hour;
  }
  return 0;
}

Problem with_longer_slo(const Problem& problem, std::size_t service, double factor) {
  Problem changed = problem;
  changed.budget.progress = {};
  auto& slo = changed.workload.services[service].slo;
  slo.latency = from_seconds(to_seconds(slo.latency) * factor);
  // A later deadline also lowers the rate at which the rows have to run.
  if (auto& job = changed.workload.services[service].job) {
    job->deadline = slo.latency;
    changed.workload.services[service].traffic = ConstantTraffic{job->rows_per_s()};
  }
  return changed;
}

// Names the services that cost most in the bound, until they make up four fifths of it; at most five, for a readable
// sentence.
std::string binding_services(const PlanAnswer& answer) {
  std::vector<const ServicePlan*> order;
  double all = 0;
  for (const auto& service : answer.services) {
    order.push_back(&service);
    all += service.price;
  }
  if (all <= 0) return {};
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) { return a->price > b->price; });
  constexpr double kMost = 0.8;
  constexpr std::size_t kNamed = 5;
  std::vector<std::string> names;
  double told = 0;
  for (const auto* service : order) {
    if (told >= kMost * all || names.size() == kNamed) break;
    names.push_back(fmt::format("{} ({:.0f} %)", service->service, 100 * service->price / all));
    told += service->price;
  }
  return text::join(names, ", ");
}

// The services with the largest part of the bound, at most so many, in the order of the workload.
std::vector<std::size_t> dearest_services(const PlanAnswer& answer, std::size_t count) {
  std::vector<std::size_t> order(answer.services.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t s) { return answer.services[s].price; });
  order.resize(std::min(order.size(), count));
  std::ranges::sort(order);
  return order;
}

const Service& asked_of(const Problem& problem, const std::string& name) {
  return *std::ranges::find(problem.workload.services, name, &Service::name);
}

const ServicePlan* plan_of(const PlanAnswer& answer, const std::string& name) {
  const auto found = std::ranges::find(answer.services, name, &ServicePlan::service);
  return found == answer.services.end() ? nullptr : &*found;
}

// How much of its promise a certified service uses: its latency over the Slo, both at the percentile of the Slo. Above
// one if the promise does not hold.
double promise_used(const Problem& problem, const ServicePlan& service) {
  return to_seconds(service.verdict->latency) / to_seconds(asked_of(problem, service.service).slo.latency);
}

}  // namespace

std::string among_text(const PlanAnswer& answer) {
  if (answer.with_sharing) {
    return (answer.among.empty() ? "plans" : answer.among) +
           " with the same buckets and batches, in which services may share slices";
  }
  return (answer.among.empty() ? "plans" : answer.among) +
         " in which each service has slices of its own, with these buckets";
}

double plan_price(const Problem& problem, const Plan& plan) {
  double price = 0;
  for (const auto& device : plan.devices) price += price_of(problem, device);
  return price;
}

std::vector<double> service_costs(const Problem& problem, const PlanAnswer& answer) {
  std::map<std::string, double> costs;
  for (const auto& device : answer.plan.devices) {
    // Free slices are not charged to anyone separately: the used slices carry the whole price, so the costs add up to
    // the price of the plan.
    double used = 0;
    for (const auto& slice : device.slices) {
      if (!slice.replicas.empty()) used += device.geometry.profiles[slice.slice.profile].compute_slices;
    }
    for (const auto& slice : device.slices) {
      for (const auto& replica : slice.replicas) {
        // Replicas that share a slice share its cost evenly.
        costs[replica.service] += price_of(problem, device) / used / static_cast<double>(slice.replicas.size()) *
                                  device.geometry.profiles[slice.slice.profile].compute_slices;
      }
    }
  }
  std::vector<double> list;
  for (const auto& service : answer.services) list.push_back(costs[service.service]);
  return list;
}

std::vector<Relief> slo_relief(const Problem& problem, const Planner& planner, const PlanAnswer& answer,
                               const ReliefOptions& options) {
  if (problem.options.objective == Objective::headroom) return {};
  // Planning again repeats the simulations of the changed service, so that all services together take about as many as
  // the plan did; those of services that share slices are part of many.
  const bool shares = std::ranges::any_of(answer.services, [](const auto& s) { return !s.shares_with.empty(); });
  const std::int64_t repeats = shares ? static_cast<std::int64_t>(problem.workload.services.size()) : 1;
  const bool cheap =
      problem.options.rule != Rule::certified || answer.certifications * repeats <= options.certifications_max;
  Problem base = problem;
  base.budget.progress = {};
  if (!cheap) base.options.rule = Rule::no_waiting;
  // A bound is held against the plan that there is. The difference of two bounds would limit nothing.
  const double before = answer.price;
  std::vector<Relief> reliefs;
  for (const std::size_t s : dearest_services(answer, options.services_max)) {
    const PlanAnswer relaxed = planner.plan(with_longer_slo(base, s, options.slo_factor));
    Relief relief{problem.workload.services[s].name, options.slo_factor, before, before,
                  cheap ? ReliefBasis::planned : ReliefBasis::bound};
    // A search that was cut short may find a worse plan with more freedom. The old plan is still valid then, so the
    // price never rises.
    if (relaxed.status == PlanStatus::planned) {
      relief.price_after = std::min(before, cheap ? relaxed.price : relaxed.bound);
    }
    reliefs.push_back(std::move(relief));
  }
  return reliefs;
}

std::vector<SharedBlock> shared_blocks(const Problem& problem, const PlanAnswer& answer) {
  std::vector<SharedBlock> blocks;
  for (auto& set : shared_sets(answer.plan)) {
    if (!set.shares()) continue;
    SharedBlock block{std::move(set)};
    double nearest = -std::numeric_limits<double>::infinity();
    for (const auto& name : block.set.services) {
      const ServicePlan* service = plan_of(answer, name);
      if (service == nullptr) continue;
      if (service->load_factor > 0) block.busy = std::max(block.busy, 1 / service->load_factor);
      if (!service->verdict) continue;
      const double used = promise_used(problem, *service);
      if (used <= nearest) continue;
      nearest = used;
      block.least_room = name;
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

std::vector<Neighbours> neighbours_of(const Problem& problem, const PlanAnswer& answer, std::size_t services_max) {
  std::vector<const ServicePlan*> order;
  for (const auto& service : answer.services) {
    if (!service.shares_with.empty() && service.verdict) order.push_back(&service);
  }
  std::ranges::stable_sort(order, std::greater<>{}, [&](const auto* s) { return promise_used(problem, *s); });
  if (problem.certifier == nullptr) order.clear();
  order.resize(std::min(order.size(), services_max));
  std::vector<Neighbours> list;
  for (const auto* service : order) {
    const Verdict alone = problem.certifier->certify(asked_of(problem, service->service), service->groups, false);
    list.push_back({service->service, service->shares_with.size(), alone.latency, service->verdict->latency});
  }
  return list;
}

std::string why_not_fewer(const Problem& problem, const PlanAnswer& answer) {
  if (problem.options.objective == Objective::headroom) {
    return fmt::format(
        "The plan uses all devices of the fleet to reach the largest factor. No plan was found slightly above {:.4g} "
        "times the rates, but it is not proved that none exists.",
        answer.headroom);
  }
  const bool price = problem.options.objective == Objective::price;
  const std::string unit = price ? "an hour" : answer.bound <= 1 ? "device" : "devices";
  const std::string rule(to_string(problem.options.rule));
  const std::string among = among_text(answer);
  std::string text;
  if (answer.bound <= 0) {
    text = "This planner gives no bound: a smaller plan may exist.";
  } else if (answer.proved) {
    text = fmt::format("None of the {} takes less than {:.4g} {} under rule {}: this is the best of them.", among,
                       answer.bound, unit, rule);
  } else {
    text = fmt::format(
        "None of the {} takes less than {:.4g} {} under rule {}; between that and {:.4g} nothing was proved.", among,
        answer.bound, unit, rule, answer.price);
  }
  if (problem.options.rule == Rule::certified && answer.bound > 0) {
    text += " A cover counts as too small if it lacks the capacity, or if it was simulated and not certified.";
  }
  if (answer.with_sharing && !answer.binds.empty()) {
    text += fmt::format(" The bound counts work, memory and blocking; most of it is {}.", answer.binds);
  }
  const std::string binding = binding_services(answer);
  if (!binding.empty()) text += " The bound is due to: " + binding + ".";
  return text;
}

}  // namespace tangram::plan

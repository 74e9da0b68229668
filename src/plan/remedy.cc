#include "plan/remedy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/text.h"
#include "plan/explain.h"
#include "plan/headroom.h"

namespace tangram::plan {
namespace {

constexpr double kRemedyFactorMin = 1.0 / 64;  // Rates that are lower than this were not meant.
constexpr double kRemedyFactorStep = 1.05;

// Passes on a limited number of questions and answers no to the others, so that a search ends in bounded time. A plan
// that is found has been confirmed all the same.
class BoundedCertifier final : public Certifier {
 public:
  BoundedCertifier(Certifier& certifier, std::int64_t questions_max)
      : certifier_(certifier), questions_left_(questions_max) {}

  Verdict certify(const Service& service, std::span<const ReplicaGroup> groups, bool confirm) override {
    return questions_left_-- > 0 ? certifier_.certify(service, groups, confirm) : Verdict{};
  }
  std::vector<Verdict> certify_together(std::span<const Service> services, std::span<const SharedGroup> groups,
                                        bool confirm) override {
    if (questions_left_-- <= 0) return std::vector<Verdict>(services.size());
    return certifier_.certify_together(services, groups, confirm);
  }

  bool used_up() const { return questions_left_ <= 0; }

 private:
  Certifier& certifier_;
  std::int64_t questions_left_;
};

// A remedy need not be the best there is, so each search is short, also where every question is answered with no.
CoverBudget quick_budget() {
  CoverBudget budget;
  budget.rounds_max = 40;
  budget.cover_nodes_max = 1000;
  budget.tree_nodes_max = 400;
  budget.parts_max = 16;
  budget.parts_nodes_max = 50'000;
  return budget;
}

class RemedySearch {
 public:
  RemedySearch(const Problem& problem, const Planner& planner, const RemedyOptions& options)
      : problem_(problem), planner_(planner), options_(options) {
    problem_.options.sharing = Sharing::none;
    problem_.budget = quick_budget();
    if (problem.certifier == nullptr) return;
    problem_.certifier = &bounded_.emplace(*problem.certifier, options.questions_max);
  }

  Remedy run() {
    find_devices();
    find_factor();
    return remedy_;
  }

 private:
  PlanAnswer plan(const Problem& problem, const std::string& what) const {
    if (options_.progress) options_.progress("no plan; trying " + what);
    return planner_.plan(problem);
  }

  void find_devices() {
    Problem unlimited = problem_;
    for (auto& group : unlimited.fleet.groups) group.count.reset();
    // Headroom has no limit on such a fleet, and free devices have to be limited.
    unlimited.options.objective = Objective::devices;
    const PlanAnswer answer = plan(unlimited, "more devices");
    if (answer.status != PlanStatus::planned) return;
    remedy_.devices = answer.devices;
    std::map<std::string, int> counts;
    for (const auto& device : answer.plan.devices) ++counts[device.type];
    std::vector<std::string> parts;
    for (const auto& [type, count] : counts) parts.push_back(fmt::format("{} x {}", count, type));
    remedy_.of = text::join(parts, " + ");
    const std::vector<double> costs = service_costs(unlimited, answer);
    const auto most = std::ranges::max_element(costs);
    if (most == costs.end()) return;
    remedy_.service = answer.services[static_cast<std::size_t>(most - costs.begin())].service;
    remedy_.service_devices = *most;
  }

  // Brackets the factor from a guess by the devices, then bisects.
  void find_factor() {
    if (problem_.options.objective == Objective::headroom) return;  // It has looked for a factor itself.
    double high = 1;
    double next = first_guess();
    for (int probe = 0; probe < options_.probes_max && next >= kRemedyFactorMin; ++probe) {
      if (bounded_ && bounded_->used_up()) return;
      Problem lower = problem_;
      lower.workload = scale_rates(problem_.workload, next);
      if (plan(lower, fmt::format("{:.3g} times the rates", next)).status == PlanStatus::planned) {
        remedy_.rate_factor = next;
      } else {
        high = next;
      }
      if (remedy_.rate_factor && high / *remedy_.rate_factor <= kRemedyFactorStep) return;
      next = remedy_.rate_factor ? std::sqrt(high * *remedy_.rate_factor) : next / 2;
    }
  }

  double first_guess() const {
    int count = 0;
    for (const auto& group : problem_.fleet.groups) count += group.count.value_or(0);
    if (!remedy_.devices || count <= 0 || count >= *remedy_.devices) return 0.8;
    return 0.95 * count / *remedy_.devices;
  }

  Problem problem_;
  const Planner& planner_;
  const RemedyOptions& options_;
  std::optional<BoundedCertifier> bounded_;
  Remedy remedy_;
};

}  // namespace

Remedy find_remedy(const Problem& problem, const Planner& planner, const RemedyOptions& options) {
  const bool limited =
      std::ranges::all_of(problem.fleet.groups, [](const DeviceGroup& g) { return g.count.has_value(); });
  // With devices without end, more of them or lower rates are not what is missing.
  if (!limited || problem.fleet.groups.empty() || problem.workload.services.empty()) return {};
  return RemedySearch(problem, planner, options).run();
}

std::string to_text(const Remedy& remedy) {
  std::string text;
  if (remedy.devices) {
    text += fmt::format("a plan was found on {} device{} ({})", *remedy.devices, *remedy.devices == 1 ? "" : "s",
                        remedy.of);
    text += remedy.service.empty()
                ? "\n"
                : fmt::format("; {} takes most of them, {:.2g}\n", remedy.service, remedy.service_devices);
  }
  if (remedy.rate_factor) text += fmt::format("a plan was found for {:.3g} times the rates\n", *remedy.rate_factor);
  return text;
}

}  // namespace tangram::plan

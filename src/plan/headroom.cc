// Objective::headroom: the largest factor by which all rates can grow on a fixed fleet.
//
// Whether a plan exists is monotone in the factor, apart from chance in simulations, so the search brackets the factor
// by doubling or halving and then bisects. Under Rule::certified each step is a whole planning run with simulations.
// Two limits keep that affordable: a cap on questions to the certifier at each factor, and an upper bound on the
// factor from planning without simulation.

#include "plan/headroom.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "core/service_key.h"
#include "plan/detail/no_plan.h"
#include "plan/spare.h"

namespace tangram::plan {
namespace {

// Factors beyond these are not tried: such rates cannot have been meant.
constexpr double kFactorMax = 1 << 20;
constexpr double kFactorMin = 1.0 / 1024;
constexpr double kFactorStep = 1.01;
// With simulations each factor takes seconds, and factors that lie closer together cannot be told apart.
constexpr double kFactorStepCertified = 1.02;
// Questions to the certifier at one factor. A plan that is found has been confirmed, however few they were.
constexpr std::int64_t kProbeQuestionsMax = 500;
// And at all factors together, which bounds the time of the search: a question takes up to a tenth of a second.
constexpr std::int64_t kQuestionsMax = 1500;

// Passes on a limited number of different questions and answers no to the others. The search for a factor needs no
// proof that fewer devices would not suffice, which is what most questions are for. Confirmations are always passed
// on.
class LimitedCertifier final : public Certifier {
 public:
  LimitedCertifier(Certifier& certifier, std::int64_t questions_max)
      : certifier_(certifier), questions_max_(questions_max) {}

  Verdict certify(const Service& service, std::span<const ReplicaGroup> groups, bool confirm) override {
    if (confirm) return ask(service, groups, true);
    // A fresh entry is a verdict that does not hold, which is the answer once the questions are used up.
    const auto [known, fresh] = verdicts_.try_emplace(key_of(service, groups));
    if (fresh && questions_ < questions_max_) {
      ++questions_;
      known->second = ask(service, groups, false);
    }
    return known->second;
  }
  std::vector<Verdict> certify_together(std::span<const Service> services, std::span<const SharedGroup> groups,
                                        bool confirm) override {
    // The certifier remembers its answers, so a question that is asked again costs nothing but a count.
    if (!confirm && ++questions_ > questions_max_) return std::vector<Verdict>(services.size());
    ++asked_;
    return certifier_.certify_together(services, groups, confirm);
  }
  std::int64_t asked() const { return asked_; }
  std::int64_t questions() const { return std::min(questions_, questions_max_); }

 private:
  static std::string key_of(const Service& service, std::span<const ReplicaGroup> groups) {
    std::string key = content_key(service);
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
  std::int64_t questions_max_;
  std::map<std::string, Verdict> verdicts_;
  std::int64_t questions_ = 0;
  std::int64_t asked_ = 0;
};

bool all_hold(const PlanAnswer& answer) {
  return std::ranges::all_of(answer.services, [](const ServicePlan& s) { return !s.verdict || s.verdict->holds; });
}

// Searches for the largest factor with a plan in which every service was confirmed.
class FactorSearch {
 public:
  FactorSearch(const Problem& problem, const PlanOnce& plan_once, double factor_max)
      : problem_(problem), plan_once_(plan_once), factor_max_(factor_max) {}

  // Returns the plan with its factor; infeasible if there is none at any factor. Goes up from the given rates, since
  // planning for low rates is quick, or down if they are too high; then bisects.
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
      // The geometric mean, since the precision asked for is a ratio.
      const double middle = std::sqrt(low_ * high_);
      (try_at(middle) ? low_ : high_) = middle;
    }
    best_.certifications = asked_;
    return std::move(best_);
  }

 private:
  // Plans at one factor, and keeps the answer if it is a plan or if there is none yet, so that a failure has its
  // reason.
  bool try_at(double factor) {
    Problem scaled = problem_;
    scaled.workload = scale_rates(problem_.workload, factor);
    std::optional<LimitedCertifier> limited;
    if (problem_.certifier != nullptr) {
      scaled.certifier =
          &limited.emplace(*problem_.certifier, std::min(kProbeQuestionsMax, kQuestionsMax - questions_));
    }
    PlanAnswer answer = plan_with_spare(scaled, plan_once_);
    if (limited) {
      asked_ += limited->asked();
      questions_ += limited->questions();
    }
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
  std::int64_t questions_ = 0;  // Of those, the ones that are limited.
};

// Planning without waiting needs no simulation and carries at least as much, so its factor is an upper limit. One step
// is added because that search is itself only exact to one step.
double factor_limit(const Problem& problem, const PlanOnce& plan_once) {
  if (problem.options.rule != Rule::certified) return kFactorMax;
  Problem cheap = problem;
  cheap.options.rule = Rule::no_waiting;
  cheap.budget.progress = {};
  const PlanAnswer answer = FactorSearch(cheap, plan_once, kFactorMax).run();
  return answer.status == PlanStatus::planned ? kFactorStep * answer.headroom : kFactorMax;
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

PlanAnswer plan_headroom(const Problem& problem, const PlanOnce& plan_once) {
  const auto in_a_loop = [](const Service& s) { return std::holds_alternative<ClosedLoopTraffic>(s.traffic); };
  if (!problem.workload.services.empty() && std::ranges::all_of(problem.workload.services, in_a_loop)) {
    return detail::no_plan(
        "", "the objective headroom scales rates, but a closed loop has no rate; choose another objective");
  }
  for (const auto& group : problem.fleet.groups) {
    if (group.count) continue;
    return detail::no_plan(
        "", fmt::format(
                "the headroom is unlimited on a fleet without a limit; give {} a count, or choose another objective",
                group_name(group)));
  }
  PlanAnswer answer = FactorSearch(problem, plan_once, factor_limit(problem, plan_once)).run();
  // Bounds are about the number of devices, which is fixed here.
  answer.bound = 0;
  answer.proved = false;
  return answer;
}

}  // namespace tangram::plan

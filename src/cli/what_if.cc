#include "cli/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <variant>

#include "lab/certify.h"
#include "plan/explain.h"
#include "plan/problem.h"

namespace tangram::cli {
namespace {

// As many as --replan spends on one plan of many.
const lab::CertifyOptions kWhatIfCertify{.requests_look = 100'000, .requests_confirm = 200'000, .confirmations = 1};

Fleet fleet_of_plan(const Plan& plan) {
  Fleet fleet;
  std::set<std::string> types;
  for (const auto& device : plan.devices) {
    if (!types.insert(device.type).second || device.type == "cpu") continue;
    DeviceGroup group;
    group.name = group.type = device.type;
    fleet.groups.push_back(std::move(group));
  }
  return fleet;
}

void change_rate(Service& service, double factor) {
  std::visit(
      [&](auto& traffic) {
        using Kind = std::decay_t<decltype(traffic)>;
        if constexpr (std::is_same_v<Kind, CurveTraffic>) {
          traffic.scale *= factor;
        } else if constexpr (std::is_same_v<Kind, TraceTraffic>) {
          traffic.speed *= factor;
        } else if constexpr (std::is_same_v<Kind, ClosedLoopTraffic>) {
          traffic.clients = std::max(1, static_cast<int>(std::lround(traffic.clients * factor)));
        } else {
          traffic.rate_per_s *= factor;
        }
      },
      service.traffic);
}

std::string devices_text(int count) { return fmt::format("{} device{}", count, count == 1 ? "" : "s"); }

}  // namespace

std::function<Result<serve::WhatIfAnswer>(const serve::WhatIfQuestion&)> make_what_if(WhatIfBase base) {
  const auto kept = std::make_shared<const WhatIfBase>(std::move(base));
  return [kept](const serve::WhatIfQuestion& question) -> Result<serve::WhatIfAnswer> {
    const Fleet fleet = kept->fleet ? *kept->fleet : fleet_of_plan(kept->plan);
    if (fleet.groups.empty()) return Error{ErrorCode::invalid, "plans for the cores of a host are not made anew"};
    const auto plan_for = [&](const Workload& workload) {
      lab::SimulatedCertifier certifier(*kept->latency, kWhatIfCertify);
      plan::Problem problem;
      problem.fleet = fleet;
      problem.workload = workload;
      problem.latency = kept->latency.get();
      problem.options.rule = plan::Rule::certified;
      problem.certifier = &certifier;
      return plan::find_planner("elastic")->make()->plan(problem);
    };
    Workload changed = kept->workload;
    const auto service = std::ranges::find(changed.services, question.service, &Service::name);
    if (service == changed.services.end()) {
      return Error{ErrorCode::not_found, fmt::format("there is no service {}", question.service)};
    }
    change_rate(*service, question.rate_factor);
    service->slo.latency = Duration(
        static_cast<std::int64_t>(static_cast<double>(service->slo.latency.count()) * question.promise_factor));
    const plan::PlanAnswer now = plan_for(kept->workload);
    const plan::PlanAnswer next = plan_for(changed);
    serve::WhatIfAnswer answer;
    const bool planned = now.status == plan::PlanStatus::planned;
    if (next.status != plan::PlanStatus::planned) {
      answer.answer = "There is no plan: " + next.reason;
      answer.binding = next.service.empty() ? "" : fmt::format("{} decides: it cannot be served.", next.service);
      return answer;
    }
    answer.answer = fmt::format("{}{}.", devices_text(next.devices),
                                planned ? fmt::format("; {} as things are", devices_text(now.devices)) : "");
    answer.bound = next.proved ? "Proved: no plan with these buckets takes fewer."
                               : fmt::format("Proved: no plan takes less than {:.4g}.", next.bound);
    const auto most = std::ranges::max_element(next.services, {}, &plan::ServicePlan::price);
    if (most != next.services.end() && most->price > 0) {
      answer.binding = fmt::format("{} has the largest part of the bound: {:.3g} of {:.4g}.", most->service,
                                   most->price, next.bound);
    }
    const bool priced =
        std::ranges::any_of(fleet.groups, [](const DeviceGroup& group) { return group.price_per_hour > 0; });
    if (priced) {
      plan::Problem problem;
      problem.fleet = fleet;
      problem.options.objective = plan::Objective::price;
      answer.price =
          fmt::format("{:.2f} an hour{}.", plan::plan_price(problem, next.plan),
                      planned ? fmt::format("; {:.2f} as things are", plan::plan_price(problem, now.plan)) : "");
    }
    return answer;
  };
}

}  // namespace tangram::cli
